#include "rdma_cm_device.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include "base/fork.h"
#include "base/no_cancel.h"
#include "event_fd.h"
#include "runtime.h"
#include "ucma.h"

namespace uroce::verbs {

constinit std::atomic<UcmaFile*> rdma_cm_files[kRdmaCmFdsMax];

namespace {

/// The process whose descriptors the table knows. Another one runs this code between vfork and exec, in our memory:
/// what it closes stays open here.
pid_t table_owner = 0;

/// Descriptors above this one were never ours.
std::atomic<int> highest{-1};

/// Under the mutex.
void store(int fd, UcmaFile* file) {
  rdma_cm_files[fd].store(file, std::memory_order_relaxed);
  if (fd > highest.load(std::memory_order_relaxed)) highest.store(fd, std::memory_order_relaxed);
}

/// A descriptor of the file other than `fd`; -1: there is none.
int another_descriptor(const UcmaFile& file, int fd) {
  for (size_t i = 0; i < kRdmaCmFdsMax; i++) {
    if (static_cast<int>(i) != fd && rdma_cm_files[i].load(std::memory_order_relaxed) == &file) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

void release_locked(UcmaFile* file) {
  if (--file->users == 0 && file->descriptors == 0) delete file;
}

/// Has the kernel copy, since the memory may not be there. Where the kernel refuses (seccomp), copies directly.
bool copy_by_kernel(long call, void* ours, uint64_t theirs, size_t bytes) {
  if (theirs == 0) return false;
  if (bytes == 0) return true;
  iovec local{ours, bytes};
  iovec remote{reinterpret_cast<void*>(theirs), bytes};
  const int saved_errno = errno;
  const long copied = syscall(call, getpid(), &local, 1, &remote, 1, 0);
  const bool refused = copied < 0 && (errno == EPERM || errno == ENOSYS);
  errno = saved_errno;
  if (!refused) return copied == static_cast<long>(bytes);
  if (call == SYS_process_vm_readv) {
    std::memcpy(ours, reinterpret_cast<const void*>(theirs), bytes);
  } else {
    std::memcpy(reinterpret_cast<void*>(theirs), ours, bytes);
  }
  return true;
}

int execute(UcmaFile& file, const void* data, size_t bytes) {
  rdma_ucm_cmd_hdr header;
  if (bytes < sizeof header) return EINVAL;
  const auto address = reinterpret_cast<uint64_t>(data);
  if (!copy_from_program(&header, address, sizeof header)) return EFAULT;
  if (sizeof header + header.in > bytes) return EINVAL;
  alignas(8) uint8_t in[512];
  const size_t in_bytes = std::min<size_t>(header.in, sizeof in);
  if (!copy_from_program(in, address + sizeof header, in_bytes)) return EFAULT;
  if (header.cmd == RDMA_USER_CM_CMD_GET_EVENT) return run_ucma_command(file, header.cmd, in, in_bytes, header.out);
  // Between taking an event and handing it to the program, librdmacm gives more commands: no cancellation there.
  const NoCancel but_where_events_are_awaited;
  return run_ucma_command(file, header.cmd, in, in_bytes, header.out);
}

}  // namespace

bool copy_from_program(void* to, uint64_t from, size_t bytes) {
  return copy_by_kernel(SYS_process_vm_readv, to, from, bytes);
}

bool copy_to_program(uint64_t to, const void* from, size_t bytes) {
  return copy_by_kernel(SYS_process_vm_writev, const_cast<void*>(from), to, bytes);
}

UcmaFile* hold_file(int fd) {
  if (static_cast<unsigned>(fd) >= kRdmaCmFdsMax) return nullptr;
  const std::lock_guard guard(Ucma::get().mutex);
  UcmaFile* const file = rdma_cm_files[fd].load(std::memory_order_relaxed);
  if (file != nullptr) file->users++;
  return file;
}

void release_file(UcmaFile* file) {
  const std::lock_guard guard(Ucma::get().mutex);
  release_locked(file);
}

int open_rdma_cm(int flags) try {
  Runtime::watch_forks();
  auto file = std::make_unique<UcmaFile>();
  const int fd = open_event_fd(flags);
  if (fd < 0) return -1;
  if (static_cast<size_t>(fd) >= kRdmaCmFdsMax) {
    syscall(SYS_close, fd);
    errno = EMFILE;
    return -1;
  }
  file->fd = fd;
  file->generation = fork_generation;
  file->descriptors = 1;
  const std::lock_guard guard(Ucma::get().mutex);
  table_owner = getpid();
  store(fd, file.release());
  return fd;
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return -1;
}

ssize_t write_rdma_cm(int fd, const void* command, size_t bytes) {
  UcmaFile* const file = hold_file(fd);
  if (file == nullptr) {  // another thread closed it
    errno = EBADF;
    return -1;
  }
  int error;
  try {
    // Released also when the thread is cancelled while it waits for an event.
    const std::unique_ptr<UcmaFile, decltype(&release_file)> held(file, &release_file);
    error = file->generation != fork_generation ? refuse_to_child() : execute(*file, command, bytes);
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  if (error == 0) return static_cast<ssize_t>(bytes);
  errno = error;
  return -1;
}

void forget_rdma_cm(int fd) {
  const int saved_errno = errno;
  Ucma& ucma = Ucma::get();
  UcmaFile* file;
  bool last;
  {
    const std::lock_guard guard(ucma.mutex);
    if (table_owner != getpid()) return;
    file = rdma_cm_files[fd].exchange(nullptr, std::memory_order_relaxed);
    if (file == nullptr) return;
    file->users++;
    last = --file->descriptors == 0;
    if (file->fd == fd) file->fd = last ? -1 : another_descriptor(*file, fd);
  }
  if (last && file->generation == fork_generation) ucma.destroy_all_of(*file);
  release_file(file);
  errno = saved_errno;
}

void forget_rdma_cm(unsigned first, unsigned last) {
  const int end = highest.load(std::memory_order_relaxed);
  for (unsigned fd = first; static_cast<int64_t>(fd) <= end && fd <= last; fd++) {
    if (is_rdma_cm(static_cast<int>(fd))) forget_rdma_cm(static_cast<int>(fd));
  }
}

void duplicate_rdma_cm(int from, int to) {
  if (static_cast<unsigned>(to) >= kRdmaCmFdsMax) return;
  const std::lock_guard guard(Ucma::get().mutex);
  UcmaFile* const file = rdma_cm_files[from].load(std::memory_order_relaxed);
  if (file == nullptr || table_owner != getpid()) return;
  file->descriptors++;
  store(to, file);
}

void leave_rdma_cm() {
  table_owner = getpid();
  Ucma::leave();
}

}  // namespace uroce::verbs
