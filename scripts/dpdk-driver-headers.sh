#!/usr/bin/env bash
# Seven headers that a DPDK driver needs and that distributions leave out of their -dev package (DPDK's own build option
# enable_driver_sdk would install them). They are taken from the source package of exactly the installed release.
#
#   scripts/dpdk-driver-headers.sh       prints the folder that has them; fetches them when it is not there yet
#
# Needs the network once. Nothing is installed, and apt's own state is left alone.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

headers=(
  lib/ethdev/ethdev_driver.h lib/ethdev/ethdev_pci.h lib/ethdev/ethdev_vdev.h
  lib/eal/include/bus_driver.h lib/eal/include/dev_driver.h
  drivers/bus/pci/bus_pci_driver.h drivers/bus/vdev/bus_vdev_driver.h
)

die() {
  echo "$0: $*" >&2
  exit 1
}

release=$(pkg-config --modversion libdpdk 2>/dev/null) || die "DPDK is not installed: scripts/install-deps.sh"
folder=build-deps/dpdk-$release-driver-headers
if [ -f "$folder/complete" ]; then
  echo "$PWD/$folder"
  exit 0
fi

package=$(dpkg-query -W -f '${source:Version}' libdpdk-dev 2>/dev/null) ||
  die "DPDK $release did not come as a package libdpdk-dev: build it with -Denable_driver_sdk=true"
case "$package" in
  "$release"-*) ;;
  *) die "pkg-config finds DPDK $release, but the package libdpdk-dev is $package: which of them is to be used?" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/parts" "$work/source"
chmod 755 "$work" # apt reads as a user of its own

# The machine's own sources, asked for source packages as well.
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
  [ -r "$file" ] || continue
  case "$file" in
    *.list) sed -n 's/^deb /deb-src /p' "$file" >"$work/parts/$(basename "$file")" ;;
    *.sources) sed 's/^Types:.*/Types: deb-src/' "$file" >"$work/parts/$(basename "$file")" ;;
  esac
done
# shellcheck disable=SC2206  # words
apt=(apt-get -qq -o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$work/parts"
  -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o "APT::Sandbox::User=")

"${apt[@]}" update >"$work/log" 2>&1 </dev/null || true # one bad source must not spoil the others
(cd "$work/source" && "${apt[@]}" source --download-only "dpdk=$package" >>"$work/log" 2>&1 </dev/null) || {
  tail -n 5 "$work/log" >&2
  die "the source package dpdk=$package could not be fetched"
}
tarball=$(find "$work/source" -name "dpdk_$release.orig.tar.*" ! -name '*.asc' | head -n 1)
[ -n "$tarball" ] || die "the source package dpdk=$package has no tar file of release $release"

mkdir "$work/include" "$work/tree"
tar -xf "$tarball" -C "$work/tree" --strip-components=1 --wildcards "*/VERSION" "${headers[@]/#/*/}"
[ "$(cat "$work/tree/VERSION")" = "$release" ] || die "the source package says it is DPDK $(cat "$work/tree/VERSION"), not $release"
for header in "${headers[@]}"; do cp "$work/tree/$header" "$work/include/"; done
# What the headers are for, in a form that the compiler can compare with RTE_VERSION.
IFS=. read -r year month minor _ <<<"$release.0"
printf '#define DRIVER_HEADERS_YEAR %d\n#define DRIVER_HEADERS_MONTH %d\n#define DRIVER_HEADERS_MINOR %d\n' \
  "$((10#$year))" "$((10#$month))" "$((10#$minor))" >"$work/include/driver_headers_version.h"

mkdir -p build-deps
rm -rf "$folder"
touch "$work/include/complete"
# Two builds may be configured at the same time: who is second finds it done.
mv -T "$work/include" "$folder" 2>/dev/null || [ -f "$folder/complete" ] || die "cannot write $folder"
echo "$PWD/$folder"
