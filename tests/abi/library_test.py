# SPDX-License-Identifier: Apache-2.0
"""The shared library as the linker sees it: exports, version node, SONAME, what it needs.

usage: library_test.py LIBRARY SYMBOLS.txt
"""
import re
import subprocess
import sys

ALLOWED_NEEDED = re.compile(
    r"(libc\.so\.6|ld-linux.*\.so\.\d+|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1)$")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def exported(library):
    symbols = set()
    for line in output("nm", "-D", "--defined-only", "--with-symbol-versions", library).splitlines():
        kind, name = line.split()[-2:]
        if kind == "A":  # the version node itself
            continue
        name, _, version = name.partition("@")
        symbols.add((name, version.lstrip("@")))
    return symbols


def main():
    library, symbol_file = sys.argv[1:]
    with open(symbol_file, encoding="ascii") as lines:
        wanted = {tuple(line.split()) for line in lines}
    faults = []
    found = exported(library)
    faults += [f"not exported: {name}@@{version}" for name, version in sorted(wanted - found)]
    faults += [f"not in the list: {name}@@{version}" for name, version in sorted(found - wanted)]

    dynamic = output("readelf", "-d", "-W", library)
    sonames = re.findall(r"\(SONAME\).*\[(.*)\]", dynamic)
    if sonames != ["libxqa.so.1"]:
        faults.append(f"SONAME is {sonames}")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    if "libc.so.6" not in needed:
        faults.append(f"NEEDED could not be read: {needed}")
    faults += [f"needs {name}" for name in needed if not ALLOWED_NEEDED.match(name)]
    faults += [f"has {tag}" for tag in ("TEXTREL", "RPATH", "RUNPATH") if f"({tag})" in dynamic]
    if "BIND_NOW" not in dynamic:
        faults.append("is not bound at load (-z now)")
    print("\n".join(faults) or f"{len(found)} symbols, needs {', '.join(needed)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
