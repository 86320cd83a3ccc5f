#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds libxqa in build/release, from a fresh Debian or Ubuntu machine if need be.
set -euo pipefail
cd "$(dirname "$0")"

build_dir=build/release
min_cuda=12.8

usage() {
  cat <<EOF
usage: ./build.sh COMMAND

  run [ARGS]   build the library and the tool, then xqa run ARGS (default: --model llama-3-70b)
  test [ARGS]  build everything, then ctest ARGS; tests that need a GPU are skipped without one
  build        build everything

Missing build tools are installed with apt-get (as root, or through sudo). CUDA is not installed: a
toolkit of $min_cuda or newer is used if nvcc is in \$CUDACXX, in \$PATH or in /usr/local/cuda, else the
library is built without GPU kernels.
EOF
}

die() { echo "build.sh: $*" >&2; exit 1; }

# Debian packages of the build tools that are not here.
missing_packages() {
  local entry gtest
  for entry in g++:g++ cmake:cmake ninja:ninja-build python3:python3 pkg-config:pkg-config; do
    command -v "${entry%%:*}" > /dev/null || echo "${entry#*:}"
  done
  gtest=$(compgen -G '/usr/lib*/cmake/GTest' || compgen -G '/usr/lib/*/cmake/GTest' \
    || compgen -G '/usr/local/lib*/cmake/GTest' || true)
  if [ -z "$gtest" ]; then echo libgtest-dev; fi
}

install_missing() {
  local packages as_root=()
  mapfile -t packages < <(missing_packages)
  if [ ${#packages[@]} -eq 0 ]; then return; fi
  command -v apt-get > /dev/null || die "please install what these Debian packages hold: ${packages[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null || die "neither root nor sudo; as root run: apt-get install ${packages[*]}"
    as_root=(sudo)
  fi
  echo "build.sh: installing ${packages[*]}"
  "${as_root[@]}" apt-get update -q || echo "build.sh: apt-get update failed; trying what is known" >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${packages[@]}" ccache  # a help, not a need
}

# The first nvcc that is new enough; nothing if there is none.
find_nvcc() {
  local nvcc version
  for nvcc in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    if [ ! -x "$nvcc" ]; then continue; fi
    version=$("$nvcc" --version | sed -nE 's/.*release ([0-9.]+).*/\1/p')
    if printf '%s\n' "$min_cuda" "$version" | sort -C -V; then
      echo "$nvcc"
      return
    fi
    echo "build.sh: $nvcc is CUDA $version, too old (needs $min_cuda)" >&2
  done
}

configure() {
  local nvcc
  nvcc=$(find_nvcc)
  if [ -n "$nvcc" ]; then
    cmake --preset release -DXQA_CUDA=ON -DCMAKE_CUDA_COMPILER="$nvcc"
  else
    echo "build.sh: no CUDA toolkit of $min_cuda or newer; building without GPU kernels"
    cmake --preset release -DXQA_CUDA=OFF
  fi
}

command=${1:-}
case $command in
  run | test | build) shift ;;
  -h | --help | help) usage; exit ;;
  *) usage >&2; exit 2 ;;
esac
install_missing
configure
case $command in
  run)
    cmake --build "$build_dir" --target xqa_tool
    if [ $# -eq 0 ]; then set -- --model llama-3-70b; fi
    exec "$build_dir/src/tools/xqa" run "$@"
    ;;
  test)
    cmake --build "$build_dir"
    exec ctest --preset release --parallel "$(nproc)" "$@"
    ;;
  build) cmake --build "$build_dir" ;;
esac
