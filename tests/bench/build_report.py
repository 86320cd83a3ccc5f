#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports what a build cost: compile time of every CUDA source for one SM, and the size of the library.

usage: build_report.py [options] BUILD_DIR

Times come from the build's .ninja_log: wall time of the last compilation of each object, near zero where a
compiler cache had it. SMs are counted in compile_commands.json. Exit status 1 if a budget is exceeded.
"""
import argparse
import json
import os
import re
import sys


def last_times(log_path):
    """Seconds of the last run of every output in a ninja log."""
    times = {}
    with open(log_path, encoding="utf-8") as log:
        if not log.readline().startswith("# ninja log"):
            raise SystemExit(f"{log_path} is not a ninja log")
        for line in log:
            start_ms, end_ms, _, output, _ = line.rstrip("\n").split("\t")
            times[output] = (int(end_ms) - int(start_ms)) / 1000
    return times


def cuda_objects(build_dir):
    """Object file (as ninja names it) and number of SMs of every CUDA source."""
    with open(os.path.join(build_dir, "compile_commands.json"), encoding="utf-8") as commands:
        for command in json.load(commands):
            if not command["file"].endswith(".cu"):
                continue
            output = re.search(r" -o (\S+)", command["command"]).group(1)
            yield output, len(set(re.findall(r"\bsm_\d+", command["command"])))


def kernel_times(build_dir):
    """(seconds for one SM, SMs, object), slowest first, and the objects that the log does not know."""
    times = last_times(os.path.join(build_dir, ".ninja_log"))
    rows, unknown = [], []
    for output, sms in cuda_objects(build_dir):
        if output in times:
            rows.append((times[output] / max(sms, 1), sms, output))
        else:
            unknown.append(output)
    return sorted(rows, reverse=True), unknown


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("build_dir")
    parser.add_argument("--library", required=True)
    parser.add_argument("--library-mb", type=float, required=True, help="budget, in 10^6 bytes")
    parser.add_argument("--kernel-seconds", type=float, required=True,
                        help="budget of one CUDA source for one SM")
    parser.add_argument("--require-kernels", action="store_true", help="a build without any is a failure")
    options = parser.parse_args()

    faults = []
    rows, unknown = kernel_times(options.build_dir)
    total = sum(seconds * max(sms, 1) for seconds, sms, _ in rows)
    print(f"{len(rows)} CUDA sources, {total:.0f} s of compilation; the slowest, for one SM:")
    for seconds, sms, output in rows[:10]:
        print(f"  {seconds:7.1f} s  x {sms} SMs  {os.path.basename(output)}")
    faults += [f"{output}: {seconds:.1f} s for one SM, the budget is {options.kernel_seconds:g} s"
               for seconds, _, output in rows if seconds > options.kernel_seconds]
    faults += [f"{output}: not in the ninja log" for output in unknown]
    if options.require_kernels and not rows:
        faults.append("no CUDA source was compiled")

    size_mb = os.path.getsize(options.library) / 1e6
    print(f"{os.path.basename(options.library)}: {size_mb:.2f} MB")
    if size_mb > options.library_mb:
        faults.append(f"the library has {size_mb:.2f} MB, the budget is {options.library_mb:g} MB")

    for fault in faults:
        print(f"FAULT {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
