# SPDX-License-Identifier: Apache-2.0
"""The files of generated/, as text. Their wording is in templates/."""
import hashlib
import pathlib
import string

import matrix

TEMPLATES = pathlib.Path(__file__).resolve().parent / "templates"
COLUMNS = ("name", "backend", "head_dim", "group_size", "q_dtype", "kv_dtype", "math_dtype")


def fill(template, **values):
    text = (TEMPLATES / f"{template}.in").read_text(encoding="ascii")
    return string.Template(text).substitute(values)


def families_of(variants):
    """The families that serve the variants, in their order."""
    return list(dict.fromkeys(v.family for v in variants if v.family))


def variants_csv(variants):
    def row(variant):
        fields = [str(getattr(variant, column)) for column in COLUMNS]
        return ",".join([*fields, variant.family.name if variant.family else "", variant.code])

    return fill("variants.csv", rows="\n".join(map(row, variants)))


def rule_row(excluded, reason):
    """A row of kExclusionRules: a Key whose fields that match anything are 0."""
    def enumerator(field, prefix):
        return f"{prefix}_{excluded.get(field, 'default').upper()}"

    assert "group_size" not in excluded, "ExclusionRule cannot tell group sizes apart"
    dtypes = (enumerator(field, "XQA_DTYPE") for field in ("q_dtype", "kv_dtype", "math_dtype"))
    key = ", ".join([str(excluded.get("head_dim", 0)), "0", *dtypes, enumerator("backend", "XQA_BACKEND")])
    return f"    {{{{{key}}},\n     \"{reason}\"}},"


def registry_cpp(variants, csv):
    families = families_of(variants)

    def row(variant):
        family = families.index(variant.family) if variant.family else -1
        return f"    {{0x{variant.packed_key:016x}, {family}, \"{variant.name}\"}},"

    return fill("registry.cpp",
                matrix_hash=hashlib.sha256(csv.encode()).hexdigest()[:16],
                rule_count=len(matrix.RULES),
                rules="\n".join(rule_row(*rule) for rule in matrix.RULES),
                variant_count=len(variants),
                variants="\n".join(map(row, variants)))


def kernels_cpp(families):
    def row(family):
        records = ",\n      ".join(f"&record_{family.kernel_name(tile)}" for tile in matrix.ROW_TILES)
        return f"    {{{{{records}}}}},"

    if not families:
        return fill("kernels.cpp", declarations="// Narrowed to variants without kernels.",
                    families="const KernelFamily* kernelFamily(int16_t) { return nullptr; }")
    return fill("kernels.cpp",
                declarations="\n".join(f"extern const KernelRecord record_{family.kernel_name(tile)};"
                                       for family in families for tile in matrix.ROW_TILES),
                families=fill("families", rows="\n".join(map(row, families)), count=len(families)).strip())


def kernel_cu(family, row_tile):
    return fill("kernel.cu", name=family.kernel_name(row_tile), backend=family.backend,
                head_dim=family.head_dim, row_tile=row_tile,
                q_tag=family.q_dtype.upper(), kv_tag=family.kv_dtype.upper())


def kernel_path(family, row_tile):
    return f"kernels/{family.kernel_name(row_tile)}.cu"


def sources_cmake(families):
    def paths(is_e4m3):
        return "".join(f"\n  {kernel_path(family, tile)}" for family in families
                       if (family.kv_dtype == "e4m3") == is_e4m3 for tile in matrix.ROW_TILES)

    return fill("sources.cmake", kernels_16bit=paths(False), kernels_e4m3=paths(True))


def generate(variants):
    """Path in the output directory and text of every file."""
    families = families_of(variants)
    csv = variants_csv(variants)
    files = {
        "variants.csv": csv,
        "registry.cpp": registry_cpp(variants, csv),
        "kernels.cpp": kernels_cpp(families),
        "sources.cmake": sources_cmake(families),
    }
    for family in families:
        for row_tile in matrix.ROW_TILES:
            files[kernel_path(family, row_tile)] = kernel_cu(family, row_tile)
    return files
