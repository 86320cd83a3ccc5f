# SPDX-License-Identifier: Apache-2.0
"""codegen/generate.py as its users call it, and its answers against those of the library.

environment: XQA_GENERATE, path of generate.py; XQA_LIBRARY, path of a libxqa.so with the whole matrix (without it
the comparison with the library is skipped)
"""
import ctypes
import filecmp
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

GENERATE = pathlib.Path(os.environ["XQA_GENERATE"])
REPOSITORY = GENERATE.resolve().parent.parent
COMMITTED = REPOSITORY / "generated"

sys.dont_write_bytecode = True
sys.path.insert(0, str(GENERATE.parent))
import matrix  # noqa: E402
import variant  # noqa: E402


def generate(*arguments):
    return subprocess.run([sys.executable, "-B", str(GENERATE), *map(str, arguments)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def rows(directory):
    """The rows of variants.csv as dicts."""
    lines = [line for line in (directory / "variants.csv").read_text().splitlines() if not line.startswith("#")]
    header, *body = (line.split(",") for line in lines)
    return [dict(zip(header, row)) for row in body]


def kernels(directory):
    return sorted(path.stem for path in (directory / "kernels").glob("*.cu"))


class GenerateTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.out = pathlib.Path(scratch.name) / "generated"

    def succeed(self, *arguments):
        result = generate(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout

    def refuse(self, *arguments):
        result = generate(*arguments)
        self.assertNotEqual(result.returncode, 0, result.stdout)
        self.assertEqual(result.stdout, "")
        return result.stderr


class MatrixTest(GenerateTest):
    def test_rows(self):
        expected = set()
        for backend, dim, group, q in itertools.product(
                ("host", "mma_sync"), (64, 128, 256), range(1, 129), ("f16", "bf16")):
            dtypes = [(q, q), ("e4m3", q)] + ([("e4m3", "e4m3")] if backend == "host" else [])
            expected.update(f"{backend}_d{dim}_g{group}_q{q}_kv{kv}_m{math}" for kv, math in dtypes)
        listed = rows(COMMITTED)
        self.assertEqual(len(listed), 3840)
        self.assertEqual({row["name"] for row in listed}, expected)
        for row in listed:
            self.assertEqual(row["name"], "{backend}_d{head_dim}_g{group_size}_q{q_dtype}_kv{kv_dtype}"
                                          "_m{math_dtype}".format(**row))
            if row["backend"] == "host":
                self.assertEqual((row["family"], row["code"]), ("", ""))
            else:
                self.assertEqual(row["family"], re.sub(r"_g\d+", "", row["name"]))
                self.assertEqual("89" in row["code"].split(), row["kv_dtype"] == "e4m3")

    def test_kernels(self):
        families = {row["family"] for row in rows(COMMITTED)} - {""}
        self.assertEqual(len(families), 12)
        expected = sorted(re.sub(r"_q", f"_r{tile}_q", family, count=1)
                          for family in families for tile in (8, 16, 32, 64))
        self.assertEqual(kernels(COMMITTED), expected)
        table = (COMMITTED / "kernels.cpp").read_text()
        self.assertEqual(sorted(re.findall(r"KernelRecord record_(\w+);", table)), expected)
        self.assertEqual(sorted(re.findall(r"&record_(\w+)", table)), expected)
        for name in expected:
            source = (COMMITTED / "kernels" / f"{name}.cu").read_text()
            dim, tile, q, kv = re.search(r"Config<(\d+), (\d+), mma_sync::(\w+), mma_sync::(\w+)>", source).groups()
            self.assertEqual(name, f"mma_sync_d{dim}_r{tile}_q{q.lower()}_kv{kv.lower()}_m{q.lower()}")
            self.assertEqual(set(re.findall(r"mma_sync_d\w+", source)), {name, f"record_{name}"[7:]})

    def test_families_are_numbered_alike(self):
        """The number in a registry row is the place of its family in the table of kernels.cpp."""
        table = re.findall(r"\{\{&record_(\w+),", (COMMITTED / "kernels.cpp").read_text())
        found = re.findall(r"\{0x\w+, (-?\d+), \"(\w+)\"\}", (COMMITTED / "registry.cpp").read_text())
        self.assertEqual(len(found), 3840)
        for number, name in found:
            if not name.startswith("host_"):
                self.assertEqual(re.sub(r"_g\d+", "_r8", name), table[int(number)])

    def test_sources(self):
        text = (COMMITTED / "sources.cmake").read_text()
        for name, is_e4m3 in (("16bit", False), ("e4m3", True)):
            listed = re.search(rf"set\(xqa_kernels_{name}\n([^)]*)\)", text).group(1).split()
            self.assertEqual(sorted(listed), [f"kernels/{kernel}.cu" for kernel in kernels(COMMITTED)
                                              if ("_kve4m3_" in kernel) == is_e4m3])

    def test_names_are_reversible(self):
        for found in variant.all_variants():
            self.assertEqual(variant.Variant.from_name(found.name), found)

    def test_code_is_what_cmake_builds(self):
        default = re.search(r'set\(XQA_SMS "([\d;]+)"', (REPOSITORY / "CMakeLists.txt").read_text()).group(1)
        sms = tuple(int(sm) for sm in default.split(";"))
        self.assertEqual(matrix.SMS["e4m3"], sms)
        for dtype in ("f16", "bf16"):
            self.assertEqual(matrix.SMS[dtype], tuple(sm for sm in sms if sm != 89))


class WriteTest(GenerateTest):
    def test_writes_what_is_committed(self):
        self.succeed("write", "--out", self.out)
        self.assertEqual(self.succeed("--check", "--out", self.out), "")
        compared = filecmp.dircmp(COMMITTED, self.out)
        self.assertEqual(compared.left_only + compared.right_only + compared.diff_files, [])
        for path in self.out.rglob("*"):
            if path.is_file():
                head = path.read_bytes().split(b"\n")[:2]
                self.assertIn(b"SPDX-License-Identifier: Apache-2.0", head[0], path)
                self.assertIn(b"Generated by codegen/generate.py; do not edit.", head[1], path)
                self.assertNotIn(b"\r", path.read_bytes(), path)

    def test_leaves_current_files_and_removes_old_ones(self):
        self.succeed("--out", self.out)
        kept, changed = self.out / "registry.cpp", self.out / "kernels.cpp"
        old, foreign = self.out / "kernels" / "old.cu", self.out / "notes.txt"
        shutil.copy(next((self.out / "kernels").iterdir()), old)
        foreign.write_text("not from the generator\n")
        changed.write_text("edited\n")
        os.utime(kept, (1000, 1000))
        self.succeed("--out", self.out)
        self.assertEqual(kept.stat().st_mtime, 1000)
        self.assertFalse(old.exists())
        self.assertTrue(foreign.exists())
        self.assertTrue(filecmp.cmp(changed, COMMITTED / "kernels.cpp", shallow=False))

    def test_check_finds_every_difference(self):
        self.succeed("--out", self.out)
        (self.out / "kernels" / "stray.cu").write_text("")
        missing = kernels(COMMITTED)[3]
        (self.out / "kernels" / f"{missing}.cu").unlink()
        with open(self.out / "variants.csv", "a", encoding="ascii") as file:
            file.write("\n")
        result = generate("--check", "--out", self.out)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout.splitlines()[:-1],
                         [f"missing: kernels/{missing}.cu", "stray: kernels/stray.cu", "not current: variants.csv"])


class NarrowTest(GenerateTest):
    def narrow(self, globs):
        self.succeed("--only", globs, "--out", self.out)
        names = [row["name"] for row in rows(self.out)]
        return ([name for name in names if name.startswith("host_")],
                [name for name in names if not name.startswith("host_")])

    def test_host_stays(self):
        host, gpu = self.narrow("*_d128_g8_qf16_*")
        self.assertEqual(len(host), 3 * 128 * 6)
        self.assertEqual(gpu, ["mma_sync_d128_g8_qf16_kvf16_mf16", "mma_sync_d128_g8_qf16_kve4m3_mf16"])
        self.assertEqual(kernels(self.out), sorted(f"mma_sync_d128_r{tile}_qf16_kv{kv}_mf16"
                                                   for tile in (8, 16, 32, 64) for kv in ("f16", "e4m3")))

    def test_host_is_narrowed_when_named(self):
        host, gpu = self.narrow("mma_sync_d64_g1_qbf16_kvbf16_*,host_d64_g1_*")
        self.assertEqual(len(host), 6)
        self.assertEqual(gpu, ["mma_sync_d64_g1_qbf16_kvbf16_mbf16"])
        self.assertEqual(len(kernels(self.out)), 4)
        self.assertIn("set(xqa_kernels_e4m3)", (self.out / "sources.cmake").read_text())

    def test_host_alone(self):
        host, gpu = self.narrow("host_d256_g128_*")
        self.assertEqual((len(host), gpu, kernels(self.out)), (6, [], []))
        self.assertIn("return nullptr;", (self.out / "kernels.cpp").read_text())

    def test_narrowing_further_removes_kernels(self):
        self.narrow("mma_sync_d64_*")
        self.assertEqual(len(kernels(self.out)), 16)
        self.narrow("mma_sync_d64_g3_qf16_kvf16_*")
        self.assertEqual(len(kernels(self.out)), 4)

    def test_refusals(self):
        self.assertIn("no variant matches 'mma_sync_d80_*'",
                      self.refuse("--only", "mma_sync_d64_*,mma_sync_d80_*", "--out", self.out))
        self.assertIn("no variant matches ''", self.refuse("--only", "", "--out", self.out))
        self.assertFalse(self.out.exists())
        self.assertIn("--out", self.refuse("--only", "mma_sync_d64_*"))


class ListTest(GenerateTest):
    def test_list(self):
        names = self.succeed("--list").splitlines()
        self.assertEqual(names, [row["name"] for row in rows(COMMITTED)])
        matching = self.succeed("--list", "mma_sync_d256_g7?_qf16_kvf16_*").splitlines()
        self.assertEqual(matching, [f"mma_sync_d256_g7{digit}_qf16_kvf16_mf16" for digit in range(10)])
        self.assertIn("no variant matches 'sm90_*'", self.refuse("--list", "sm90_*"))


class ExplainTest(GenerateTest):
    def test_sentences(self):
        self.assertEqual(self.succeed("--explain", "host_d64_g71_qbf16_kve4m3_me4m3"),
                         "host_d64_g71_qbf16_kve4m3_me4m3 is in the matrix.\n")
        self.assertEqual(
            self.succeed("--explain", "mma_sync_d80_g8_qf16_kve4m3_me4m3"),
            "mma_sync_d80_g8_qf16_kve4m3_me4m3 is not in the matrix: head_dim 80 is not built (64, 128, 256 are); "
            "mma_sync with e4m3 math is not built yet: use 16-bit math, which reads the same e4m3 cache at 16-bit "
            "accuracy. Nearest: mma_sync_d128_g8_qf16_kve4m3_mf16.\n")
        self.assertEqual(
            self.succeed("--explain", "host_d64_g8_qe4m3_kve4m3_me4m3"),
            "host_d64_g8_qe4m3_kve4m3_me4m3 is not in the matrix: q_dtype e4m3 is not built (f16, bf16 are). "
            "Nearest: host_d64_g8_qf16_kve4m3_me4m3.\n")

    def test_refusals(self):
        for name in ("d80", "mma_sync_d128_g08_qf16_kvf16_mf16", "mma_sync_d128_g8_qf32_kvf16_mf16", "",
                     "mma_sync_d128_g8_qf16_kvf16_mf16_x", "cpu_d128_g8_qf16_kvf16_mf16"):
            self.assertIn(f"'{name}' is no variant name", self.refuse("--explain", name))
        self.assertIn("more than 65535", self.refuse("--explain", "host_d65536_g8_qf16_kvf16_mf16"))


class Key(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t)] + [
        (name, ctypes.c_int32)
        for name in ("head_dim", "group_size", "q_dtype", "kv_dtype", "math_dtype", "backend")]


@unittest.skipUnless(os.environ.get("XQA_LIBRARY"), "no library with the whole matrix")
class LibraryTest(unittest.TestCase):
    def setUp(self):
        self.library = ctypes.CDLL(os.environ["XQA_LIBRARY"])
        self.library.xqaExplainKey.restype = ctypes.c_size_t
        self.variants = variant.all_variants()

    def explain(self, wanted):
        key = Key(ctypes.sizeof(Key), wanted.head_dim, wanted.group_size, variant.DTYPES[wanted.q_dtype],
                  variant.DTYPES[wanted.kv_dtype], variant.DTYPES[wanted.math_dtype],
                  variant.BACKENDS[wanted.backend])
        text = ctypes.create_string_buffer(2048)
        self.library.xqaExplainKey(ctypes.byref(key), None, text, len(text))
        return text.value.decode()

    def test_the_same_reasons_and_the_same_nearest(self):
        dtypes = ("f16", "bf16", "e4m3")
        missing = 0
        for backend, dim, q, kv, math, group in itertools.product(
                ("host", "mma_sync", "sm90"), (64, 192), ("f16", "bf16"), dtypes, dtypes, (128, 129)):
            wanted = variant.Variant(backend, dim, q, kv, math, group)
            reasons = variant.reasons(wanted)
            text = self.explain(wanted)
            if reasons:
                missing += 1
                nearest = variant.nearest(wanted, self.variants).name
                self.assertEqual(
                    text, f"{wanted.name} is not in this library: {'; '.join(reasons)}. Nearest: {nearest}.")
            else:
                self.assertTrue(text.startswith(f"{wanted.name} is "), text)
                self.assertNotIn("Nearest", text)
        self.assertGreater(missing, 150)


if __name__ == "__main__":
    unittest.main()
