# SPDX-License-Identifier: Apache-2.0
"""The rows of the registry are constants: in .rodata, so that loading the library neither computes nor relocates them.

usage: constant_data_test.py LIBRARY
"""
import re
import subprocess
import sys

SYMBOL = "_ZN3xqa9kVariantsE"


def readelf(option, library):
    command = ["readelf", option, "-W", library]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    library = sys.argv[1]
    for line in readelf("-s", library).splitlines():
        fields = line.split()  # number, value, size, type, bind, visibility, section, name
        if len(fields) == 8 and fields[7] == SYMBOL:
            break
    else:
        sys.exit(f"{library} has no symbol {SYMBOL}")
    sections = dict(re.findall(r"^\s*\[\s*(\d+)\]\s+(\S+)", readelf("-S", library), re.MULTILINE))
    section = sections[fields[6]]
    print(f"{SYMBOL}: {fields[2]} bytes in {section}")
    return 0 if section == ".rodata" else 1


if __name__ == "__main__":
    sys.exit(main())
