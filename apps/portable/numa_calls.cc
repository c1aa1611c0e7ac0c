// What DPDK calls of libnuma, by the kernel's own calls. Debian's archive of that library cannot go into a shared
// object.
//
// DPDK asks for memory of a node where it takes hugepages: it keeps the policy of the thread, prefers the node, and
// puts the policy back.
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#define HIDDEN extern "C" __attribute__((visibility("hidden")))

namespace {

constexpr unsigned long kNodes = 1024;  // as many as a kernel can be built for
constexpr unsigned long kBitsPerWord = CHAR_BIT * sizeof(unsigned long);

}  // namespace

// libnuma's.
struct bitmask {
  unsigned long size;
  unsigned long* maskp;
};

HIDDEN long get_mempolicy(int* mode, unsigned long* nodes, unsigned long bits, void* address, unsigned flags) {
  return syscall(SYS_get_mempolicy, mode, nodes, bits, address, flags);
}

HIDDEN long set_mempolicy(int mode, const unsigned long* nodes, unsigned long bits) {
  return syscall(SYS_set_mempolicy, mode, nodes, bits);
}

HIDDEN int numa_available() {
  const bool refused = get_mempolicy(nullptr, nullptr, 0, nullptr, 0) != 0 && (errno == ENOSYS || errno == EPERM);
  return refused ? -1 : 0;
}

HIDDEN bitmask* numa_allocate_nodemask() { return new bitmask{kNodes, new unsigned long[kNodes / kBitsPerWord]()}; }

HIDDEN void numa_bitmask_free(bitmask* mask) {
  delete[] mask->maskp;
  delete mask;
}

HIDDEN void numa_set_preferred(int node) {
  unsigned long nodes[kNodes / kBitsPerWord] = {};
  if (node < 0 || static_cast<unsigned long>(node) >= kNodes) return;
  const auto bit = static_cast<unsigned long>(node);
  nodes[bit / kBitsPerWord] = 1UL << (bit % kBitsPerWord);
  set_mempolicy(MPOL_PREFERRED, nodes, kNodes + 1);  // the kernel takes one bit less than it is told
}

HIDDEN void numa_set_localalloc() { set_mempolicy(MPOL_DEFAULT, nullptr, 0); }
