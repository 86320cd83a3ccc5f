#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the GPU test programs of a build tree, or of a copy of it on a machine without CMake: BUILD_DIR/src/libxqa.so*
# and BUILD_DIR/tests/gpu/gpu_* are enough.
#   run_gpu_label.sh BUILD_DIR OUT_DIR [PROGRAM ...]      PROGRAM: for example gpu_grid; default: all
# OUT_DIR gets a log of each program and summary.txt. Exit status 0: all passed on a GPU.
set -u
if [ $# -lt 2 ]; then
  sed -n '3,6s/^# *//p' "$0" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd) || exit 2
mkdir -p "$2" && out=$(cd "$2" && pwd) || exit 2
shift 2
if [ $# -eq 0 ]; then
  # Longest first: they should not be left over at the end.
  set -- gpu_grid gpu_variants gpu_masking gpu_workspace gpu_numerics gpu_graph gpu_merge \
    gpu_first_capture gpu_refusals gpu_two_devices gpu_addressing
fi
rm -f "$out"/gpu_*.log "$out"/gpu_*.status "$out/summary.lines" "$out/summary.txt"

export LD_LIBRARY_PATH="$build/src${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export XQA_REQUIRE_GPU="${XQA_REQUIRE_GPU:-1}"
export XQA_GPU_SUMMARY="$out/summary.lines"
export build out
run_one='timeout 540 "$build/tests/gpu/$1" --gtest_brief=1 >"$out/$1.log" 2>&1; echo $? >"$out/$1.status"'

# Three side by side: their host work fills the cores, the GPU is rarely the limit. gpu_addressing takes 20 GB of
# device memory and runs alone.
for name in "$@"; do
  [ "$name" = gpu_addressing ] || echo "$name"
done | xargs -P 3 -I NAME sh -c "$run_one" sh NAME
for name in "$@"; do
  if [ "$name" = gpu_addressing ]; then sh -c "$run_one" sh "$name"; fi
done

failed=0
table=
for name in "$@"; do
  status=$(cat "$out/$name.status")
  case $status in
    0) result=passed ;;
    77) result="skipped: $(tail -n 1 "$out/$name.log")" ;;
    *)
      result="FAILED with exit status $status"
      failed=1
      echo "---- $name: $(grep -c ': Failure$' "$out/$name.log") failures, the first of them:"
      grep -v '^Failed$\|^ *$' "$out/$name.log" | cut -c1-1000 | head -n 40
      grep '^\[  FAILED  \] .* ms)$' "$out/$name.log"
      ;;
  esac
  table="$table$(printf '%-20s%s' "$name" "$result")
"
done
rm -f "$out"/gpu_*.status
python3 "$here/summary.py" "$out/summary.lines" >"$out/summary.txt" || failed=1
printf '\n%s' "$table" >>"$out/summary.txt"
cat "$out/summary.txt"
exit $failed
