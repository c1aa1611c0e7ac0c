#!/usr/bin/env bash
# Makes the tarball that runs as it is (doc/install.md), and checks what it needs of a system.
#
#   scripts/make_tarball.sh [FOLDER]    leaves uroce-VERSION-linux-PROCESSOR.tar.xz there, and .debug.tar.xz with symbols
#                                       for debuggers; without FOLDER, here
#
# From a build of its own, in build-tarball. The same sources and packages give the same bytes; the time in the archive is
# SOURCE_DATE_EPOCH, or that of the last commit.
set -euo pipefail
if [ $# -gt 1 ] || [[ "${1:-}" == -* ]]; then
  sed -n '2,8s/^# \{0,1\}//p' "$0"
  [ "${1:-}" = --help ] && exit 0
  exit 2
fi
mkdir -p "${1:-.}"
where=$(readlink -f "${1:-.}")
cd "$(dirname "$(readlink -f "$0")")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() { "$@" >"$log" 2>&1 || { tail -n 30 "$log" >&2; exit 1; }; }

options=(-Dtests=false -Dprograms=true -Dpmd=enabled)
if [ -f build-tarball/build.ninja ]; then
  quietly meson setup --reconfigure build-tarball "${options[@]}"
else
  quietly meson setup build-tarball "${options[@]}"
fi
quietly ninja -C build-tarball tarball
grep -h 'tar.xz:' "$log"
cp build-tarball/apps/portable/uroce-*.tar.xz "$where"
