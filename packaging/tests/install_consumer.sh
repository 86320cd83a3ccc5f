#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build into an empty prefix, builds and runs C programs against it through find_package and
# pkg-config, moves the prefix, and does all of it again.
# usage: install_consumer.sh BUILD_DIR INSTALL_TREE.txt VERSION
# environment: CC CMAKE GENERATOR, CFLAGS (may be empty), TOOL_RUNPATH (empty: the tool has none)
set -euo pipefail
export LC_ALL=C
unset LD_LIBRARY_PATH PKG_CONFIG_PATH DESTDIR

build=$1 tree=$2 version=$3
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "install_consumer: $*" >&2; exit 1; }

command -v pkg-config > /dev/null || fail "pkg-config is not installed"

runpath() { readelf -d "$1" | sed -nE 's/.*\((RPATH|RUNPATH)\).*\[(.*)\]/\2/p'; }

# What the program needs of README.md: its C example, compiled as it is printed there.
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$source/README.md" > "$work/readme.c"
grep -q xqaDecode "$work/readme.c" || fail "README.md has no C example"

find_package_configure() {  # PREFIX BUILD WANTED_VERSION
  "$CMAKE" -G "$GENERATOR" -S "$here/consumer" -B "$2" -DCMAKE_PREFIX_PATH="$1" -DXQA_WANTED="$3" \
    -DXQA_README_C="$work/readme.c" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
}

tool_in() { find "$1" -name xqa -type f; }

# Everything a user does with an installed prefix.
check_prefix() {  # PREFIX
  local prefix=$1 out=$1-consumer libdir tool
  libdir=$(dirname "$(find "$prefix" -name libxqa.so)")

  echo "== ${prefix##*/}: find_package"
  find_package_configure "$prefix" "$out" "${version%.*}" > "$work/log" || { cat "$work/log"; fail configure; }
  "$CMAKE" --build "$out" > "$work/log" || { cat "$work/log"; fail "build with find_package"; }
  readelf -d "$out/consumer" | grep -q 'NEEDED.*libxqa\.so\.1\]' || fail "the consumer does not need libxqa.so.1"
  "$out/consumer" "$version"

  echo "== ${prefix##*/}: pkg-config"
  export PKG_CONFIG_PATH=$libdir/pkgconfig
  [ "$(pkg-config --modversion xqa)" = "$version" ] || fail "pkg-config knows another version than $version"
  # shellcheck disable=SC2046,SC2086  # flags are lists of words
  $CC ${CFLAGS:-} -std=c99 -Wall -Wextra -Werror $(pkg-config --cflags xqa) "$here/consumer/consumer.c" \
    "$work/readme.c" $(pkg-config --libs xqa) -o "$out/pc_consumer"
  LD_LIBRARY_PATH=$libdir "$out/pc_consumer" "$version"

  tool=$(tool_in "$prefix")
  if [ -n "$tool" ]; then
    echo "== ${prefix##*/}: tool"
    if [ -n "$TOOL_RUNPATH" ]; then "$tool" --version; else LD_LIBRARY_PATH=$libdir "$tool" --version; fi
  fi
}

first=$work/first moved=$work/moved
"$CMAKE" --install "$build" --prefix "$first" > "$work/log" || { cat "$work/log"; fail install; }
diff -u <(sort "$tree" | sed '/^$/d') <(cd "$first" && find . ! -type d | sed 's|^\./||' | sort) \
  || fail "the installed files are not those of $tree"

library=$(find "$first" -name "libxqa.so.$version")
[ -z "$(runpath "$library")" ] || fail "the library has a run path: $(runpath "$library")"
tool=$(tool_in "$first")
if [ -n "$tool" ] && [ "$(runpath "$tool")" != "$TOOL_RUNPATH" ]; then
  fail "the tool has the run path '$(runpath "$tool")', not '$TOOL_RUNPATH'"
fi
if grep -rIlF -e "$first" -e "$build" -e "$source" "$first"; then
  fail "these files name the directory that they were built in or installed to"
fi

check_prefix "$first"
mv "$first" "$moved"
check_prefix "$moved"

# Another major version and a later minor one are refused.
for wanted in $((${version%%.*} + 1)).0 "${version%%.*}.999"; do
  if find_package_configure "$moved" "$work/refused" "$wanted" > "$work/log" 2>&1; then
    fail "find_package(xqa $wanted) accepts $version"
  fi
  grep -q 'considered but not accepted' "$work/log" || { cat "$work/log"; fail "refused for another reason"; }
done
