#!/usr/bin/env bash
# Installs the packages that are missing, and nothing else.
#
#   scripts/install-deps.sh demo    what ./demo needs: compiler, Meson, DPDK, the unmodified RDMA programs
#   scripts/install-deps.sh check   what ./check needs as well: tests, format, lint, capture reading
#   scripts/install-deps.sh full    what ./check --full needs as well: the message passing libraries, storage, a virtual machine
#   scripts/install-deps.sh interop what tests/system/interop needs as well: a virtual machine, and a kernel with rxe for it
#   scripts/install-deps.sh bench   what tests/bench needs as well: the peers to compare with; and to draw pictures
#
# Debian 12 and its relatives. Prints one line when there is nothing to do.
set -euo pipefail

demo_packages=(
  g++ meson ninja-build pkg-config python3 xz-utils
  libdpdk-dev libibverbs-dev librdmacm-dev libcli11-dev nlohmann-json3-dev libelf-dev zlib1g-dev libmicrohttpd-dev
  ibverbs-utils perftest tshark
)
check_packages=(
  "${demo_packages[@]}"
  clang clang-format clang-tidy libclang-rt-14-dev shellcheck git
  libgtest-dev libgmock-dev python3-scapy libisal-dev
  dpdk-dev iproute2 procps iperf3 valgrind
  ucx-utils qperf python3-pyverbs infiniband-diags rdmacm-utils libfabric-bin fio libcap2-bin systemd
)
full_packages=(
  "${check_packages[@]}"
  openmpi-bin libopenmpi-dev mpich libmpich-dev
  libucx-dev tgt libiscsi-bin qemu-system-x86 qemu-utils qemu-block-extra
  dpdk pciutils
)
interop_packages=(
  "${check_packages[@]}"
  qemu-system-x86 ibverbs-providers rdmacm-utils nftables dash
)
# Debian has two of these that exclude each other; either will do. A kernel that is there is not doubled.
command -v busybox >/dev/null || interop_packages+=(busybox)
compgen -G '/lib/modules/*/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko' >/dev/null || interop_packages+=(linux-image-amd64)
bench_packages=(
  "${check_packages[@]}"
  ethtool python3-matplotlib
)

case "${1:-demo}" in
  demo) wanted=("${demo_packages[@]}") ;;
  check) wanted=("${check_packages[@]}") ;;
  full) wanted=("${full_packages[@]}") ;;
  interop) wanted=("${interop_packages[@]}") ;;
  bench) wanted=("${bench_packages[@]}") ;;
  *)
    echo "usage: $0 [demo|check|full|interop|bench]" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "This is not Debian or Ubuntu. Please install what these packages contain, then try again:" >&2
  printf '  %s\n' "${wanted[*]}" >&2
  exit 1
fi

missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "packages: all ${#wanted[@]} are installed"
  exit 0
fi

run_as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    run_as_root=(sudo -n)
  else
    echo "Packages are missing and this user may not install them. As root, run:" >&2
    printf '  apt-get install --no-install-recommends %s\n' "${missing[*]}" >&2
    exit 1
  fi
fi

echo "packages: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# env, because sudo does not pass variables on. tshark's question (may ordinary users capture?) gets its default: no.
apt_get() {
  "${run_as_root[@]}" env DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true \
    apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 "$@" >"$log" 2>&1 </dev/null
}
if ! apt_get update; then
  echo "packages: the package lists could not be refreshed; trying with the ones at hand" >&2
fi
if ! apt_get install -y --no-install-recommends "${missing[@]}"; then
  echo "packages: installing failed. The last lines of what apt-get said:" >&2
  tail -n 15 "$log" >&2
  exit 1
fi
echo "packages: ${#missing[@]} installed"
