# SPDX-License-Identifier: Apache-2.0
"""build_report.py on builds that are made up: within the budgets and beyond each of them.

usage: build_report_test.py BUILD_REPORT
"""
import json
import os
import subprocess
import sys
import tempfile

COMMAND = "nvcc --generate-code=arch=compute_{0},code=[compute_{0},sm_{0}] --generate-code=arch=compute_80,code=[sm_80]"


def report(seconds=100, library_bytes=1000, logged=("k.cu.o",), sources=("k.cu",)):
    """Exit status and faults of a build whose kernels took some time, each for sm_80 and sm_90."""
    with tempfile.TemporaryDirectory() as build:
        with open(os.path.join(build, "libxqa.so"), "wb") as library:
            library.write(bytes(library_bytes))
        with open(os.path.join(build, ".ninja_log"), "w", encoding="utf-8") as log:
            log.write("# ninja log v5\n")
            for output in logged:
                log.write(f"0\t900000\t1\t{output}\tabc\n")  # an older run, which does not count
                log.write(f"500\t{500 + seconds * 1000}\t2\t{output}\tabc\n")
        with open(os.path.join(build, "compile_commands.json"), "w", encoding="utf-8") as commands:
            json.dump([{"file": "/s/" + source,
                        "command": COMMAND.format(90) + f" -c /s/{source} -o {source}.o"}
                       for source in sources], commands)
        run = subprocess.run(
            [sys.executable, sys.argv[1], "--library", os.path.join(build, "libxqa.so"), "--library-mb", "0.001",
             "--kernel-seconds", "60", "--require-kernels", build],
            stdout=subprocess.PIPE, text=True, check=False)
        return run.returncode, [line[6:] for line in run.stdout.splitlines() if line.startswith("FAULT ")]


def main():
    cases = [
        (report(), (0, [])),
        (report(seconds=120), (0, [])),  # 60 s for each of two SMs: just within
        (report(seconds=121), (1, ["k.cu.o: 60.5 s for one SM, the budget is 60 s"])),
        (report(library_bytes=1010), (1, ["the library has 0.00 MB, the budget is 0.001 MB"])),
        (report(logged=()), (1, ["k.cu.o: not in the ninja log", "no CUDA source was compiled"])),
        (report(sources=("host.cpp",)), (1, ["no CUDA source was compiled"])),
    ]
    failed = [(found, wanted) for found, wanted in cases if found != wanted]
    for found, wanted in failed:
        print(f"found {found}\nwanted {wanted}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
