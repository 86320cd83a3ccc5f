#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Loading the library and running the host backend opens no file but shared libraries and touches no driver.
# usage: load_trace.sh DLOPEN_CLIENT LIBRARY. Exit 77 (skipped) without a working strace.
set -eu
export LC_ALL=C
client=$1
library=$2
command -v strace >/dev/null || { echo "strace is not installed"; exit 77; }
strace -f -e trace=none true 2>/dev/null || { echo "strace may not trace here"; exit 77; }

trace=$(mktemp)
trap 'rm -f "$trace"' EXIT
strace -f -o "$trace" "$client" "$library" marked
# What happens between the two marks that the client writes.
part=$(sed -n '/mark: load/,/mark: done/p' "$trace")
echo "$part" | grep -aq "$library" || { echo "the trace does not show the library"; exit 1; }
echo "$part" | grep -aq 'mark: done' || { echo "the trace does not show the end"; exit 1; }
opened=$(echo "$part" | grep -aE 'open(at|at2)?\(' | grep -avE '"[^"]*\.so(\.[0-9.]+)?"|ld\.so\.cache"' || true)
forbidden=$(echo "$part" | grep -aE 'libcuda|nvidia|ioctl\(|socket\(|clone|execve\(' || true)
if [ -n "$opened$forbidden" ]; then
  echo "unexpected system calls:"
  echo "$opened"
  echo "$forbidden"
  exit 1
fi
