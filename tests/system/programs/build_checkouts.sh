#!/usr/bin/env bash
# Builds the programs of tests/system/programs/checkouts.py that no package carries, where their sources stand:
#
#   build_checkouts.sh DIRECTORY      of DIRECTORY/valkey, DIRECTORY/libvalkey and so on, those that are there
#
# Nothing is downloaded, and nothing is installed. The compiler, make and Debian's libibverbs-dev and librdmacm-dev are needed.
# rdma-unit-test needs Debian's Abseil, GoogleTest, protobuf and gRPC as well, libfabric-2 autoconf, automake and libtool, rdma-core CMake,
# Ninja and Cython, perftest autoconf, automake and libtool (doc/programs.md).
set -euo pipefail

if [ $# -ne 1 ] || [ ! -d "$1" ]; then
  sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
root=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
jobs=$(nproc)
some=

# build NAME COMMAND...: in DIRECTORY/NAME, if it is there; what it says is shown when it fails. As part of a condition, a function
# goes on after what fails in it, whatever `set -e` says: it has to end by itself.
build() {
  local name=$1 log
  shift
  if [ ! -d "$root/$name" ]; then
    echo "$name: not there"
    return
  fi
  log=$root/$name.log
  if ! (cd "$root/$name" && "$@") >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    echo "$name: failed ($log)" >&2
    exit 1
  fi
  some=1
  echo "$name: built"
}

valkey() {
  make -j"$jobs" BUILD_RDMA=module MALLOC=libc && make -C tests/rdma
}

# libfabric's fabtests 1.17, for Debian's libfabric1, of which only the headers come from the checkout. Its own build wants more tools.
fabtests() {
  local programs=(functional/{msg,cq_data,cm_data,rdm}
    benchmarks/{msg_pingpong,msg_bw,rma_bw,rdm_pingpong})
  local flags=(-O1 -w -D_GNU_SOURCE -DHAVE_CONFIG_H=1 '-DPACKAGE_VERSION="1.17"' -I out -I include -I ../include -I common -I benchmarks)
  cd fabtests && mkdir -p out || return 1
  : >out/config.h
  gcc "${flags[@]}" -c -o out/shared.o common/shared.c || return 1
  for source in hmem hmem_cuda hmem_neuron hmem_rocr hmem_ze; do
    gcc "${flags[@]}" -c -o "out/$source.o" "common/$source.c" || return 1
  done
  gcc "${flags[@]}" -c -o out/benchmark_shared.o benchmarks/benchmark_shared.c || return 1
  for program in "${programs[@]}"; do
    gcc "${flags[@]}" -o "out/fi_$(basename "$program")" "$program.c" out/*.o -l:libfabric.so.1 -lpthread -lrt || return 1
  done
}

# libfabric 2 with what is over verbs, and its own fabtests, into inst/. Its build wants autoconf, automake and libtool.
libfabric_2() {
  local prefix=$root/libfabric-2/inst off=() provider
  for provider in tcp udp shm sm2 sockets psm2 psm3 opx efa usnic hook_debug hook_hmem dmabuf_peer_mem mrail lnx lpp ucx cxi perf trace profile monitor; do
    off+=("--enable-$provider=no")
  done
  ./autogen.sh && ./configure --prefix="$prefix" --disable-static --enable-verbs --enable-rxm --enable-rxd "${off[@]}" || return 1
  make -j"$jobs" install && cd fabtests || return 1
  ./autogen.sh && ./configure --prefix="$prefix" --with-libfabric="$prefix" && make -j"$jobs" install
}

# Its objects take longer than all else together. ccache, where it is there, makes a second time short.
rdma_unit_test() {
  make -f "$here/rdma_unit_test/Makefile" SUITE=. -j"$jobs"
}

# pyverbs, and the tests that stand beside it, with the system's Python, for which Debian's Cython is.
rdma_core() {
  cmake -S . -B build -GNinja -DIN_PLACE=1 -DNO_MAN_PAGES=1 -DCMAKE_BUILD_TYPE=Release -DPYTHON_EXECUTABLE=/usr/bin/python3 &&
    ninja -C build -j"$jobs"
}

perftest() {
  ./autogen.sh && ./configure && make -j"$jobs"
}

build valkey valkey
build libvalkey make -j"$jobs" USE_RDMA=1 lib/libvalkey.a lib/libvalkey_rdma.a
build libfabric fabtests
build libfabric-2 libfabric_2
build rdma-unit-test rdma_unit_test
build rdma-core rdma_core
build perftest perftest
[ -n "$some" ] || exit 1
