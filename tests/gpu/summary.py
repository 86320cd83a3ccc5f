#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Merges what the GPU test programs appended to XQA_GPU_SUMMARY into a text for tests/gpu/results/.

usage: summary.py LINES >h200.txt
The commit is XQA_COMMIT, or git's. Exit status 1 if anything failed, was skipped or was not covered.
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys


def output_of(*command):
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return run.stdout.strip()


def commit():
    here = pathlib.Path(__file__).resolve().parent
    return (os.environ.get("XQA_COMMIT")
            or output_of("git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40")
            or "unknown")


def driver(cuda_driver):
    try:
        text = pathlib.Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        text = ""
    release = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", text)
    cuda = f"CUDA {cuda_driver // 1000}.{cuda_driver % 1000 // 10}"
    return f"{release.group(0)} ({cuda})" if release else cuda


def single(programs, key):
    values = {program[key] for program in programs}
    if len(values) != 1:
        sys.exit(f"summary.py: the programs ran with different {key}: {sorted(values)}")
    return values.pop()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    lines = pathlib.Path(sys.argv[1]).read_text().splitlines()
    programs = sorted((json.loads(line) for line in lines), key=lambda p: p["program"])
    if not programs:
        sys.exit("summary.py: no test program ran")
    covered = set().union(*(program["variants"] for program in programs))
    launchable = single(programs, "launchable")
    total = {key: sum(program[key] for program in programs)
             for key in ("tests", "tests_failed", "tests_skipped", "cases", "failed")}

    print(f"commit    {commit()}")
    print(f"date      {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC")
    print(f"device    {single(programs, 'device')}")
    print(f"driver    {driver(single(programs, 'cuda_driver'))}")
    print(f"library   {single(programs, 'build')}")
    print(f"variants  {len(covered)} of {launchable} covered")
    print(f"cases     {total['cases']} run, {total['failed']} failed")
    print(f"tests     {total['tests']} run, {total['tests_failed']} failed, "
          f"{total['tests_skipped']} skipped")
    print()
    print(f"{'program':<20}{'tests':>7}{'failed':>8}{'cases':>8}{'failed':>8}{'variants':>10}"
          f"{'seconds':>9}")
    for program in programs:
        print(f"{program['program']:<20}{program['tests']:>7}{program['tests_failed']:>8}"
              f"{program['cases']:>8}{program['failed']:>8}{len(program['variants']):>10}"
              f"{program['seconds']:>9.1f}")
    bad = total["failed"] + total["tests_failed"] + total["tests_skipped"]
    return 1 if bad or len(covered) != launchable else 0


if __name__ == "__main__":
    sys.exit(main())
