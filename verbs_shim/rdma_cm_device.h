// /dev/infiniband/rdma_cm, by which the distribution's librdmacm speaks with the kernel's connection manager: here it
// speaks with roce/cm.
//
// The descriptor that a program gets is a real one (event_fd.h), so it can be polled, made non-blocking, duplicated and
// sent through fork like that of a kernel. What is written to it are the commands of rdma_user_cm.h, ABI 4
// (ucma_commands.cc); wrappers of libc's functions (rdma_cm_calls.cc) bring them here. Descriptors of other things cost
// these wrappers one load.
//
// A command is executed as far as its errno, as the kernel does; replies are written where the command says. Memory of
// the program is read and written through the kernel, so a bad pointer is EFAULT and not a crash.
#pragma once

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>

namespace uroce::verbs {

struct UcmaFile;

/// A descriptor above this cannot be ours: `open_rdma_cm` gives EMFILE then.
inline constexpr size_t kRdmaCmFdsMax = 65536;
extern constinit std::atomic<UcmaFile*> rdma_cm_files[kRdmaCmFdsMax];

/// Whether `fd` is a descriptor of the device, of this process or inherited from its parent.
inline bool is_rdma_cm(int fd) {
  return static_cast<unsigned>(fd) < kRdmaCmFdsMax && rdma_cm_files[fd].load(std::memory_order_relaxed) != nullptr;
}

/// As open(2), with its flags.
int open_rdma_cm(int flags);
/// What is known of such a descriptor, as it would be of a device.
template <typename Stat>
void as_device(Stat& known) {
  known.st_mode = S_IFCHR | 0666;
  known.st_rdev = makedev(1, 3);  // as the files of the tree say (sysfs_tree.cc)
}
/// As write(2) to the device: one command. To be called if `is_rdma_cm(fd)`.
ssize_t write_rdma_cm(int fd, const void* command, size_t bytes);
/// To be called before the program closes `fd`. With its last descriptor a channel ends, and the ids in it.
void forget_rdma_cm(int fd);
/// To be called before all descriptors from `first` to `last` are closed.
void forget_rdma_cm(unsigned first, unsigned last);
/// To be called after the program made `to` another name of `from`.
void duplicate_rdma_cm(int from, int to);
/// To be called in the child of a fork: the channels are the parent's.
void leave_rdma_cm();

}  // namespace uroce::verbs
