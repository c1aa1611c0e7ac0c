// Wrappers for the functions of libc that read from a descriptor. Until a program opens a counter they cost one
// additional load.
//
// A counter is known by its inode, so that descriptors may be duplicated, closed and used again as the program likes.
// FILE streams read with libc's internal functions: a stream that is kept open shows what it read first, which often
// happens with sysfs, too, because of its buffer.
#undef _FILE_OFFSET_BITS
#include "held_counters.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "base/fork.h"
#include "base/immortal.h"
#include "next_symbol.h"
#include "paths.h"
#include "rdma_cm_device.h"
#include "shim.h"
#include "sysfs_tree.h"

namespace uroce::verbs {

namespace {

struct HeldCounter {
  dev_t device;
  ino_t inode;
  std::string path;  // as a program names it
};

std::atomic<bool> any_held{false};
std::mutex held_mutex;
std::vector<HeldCounter>& held() {
  static Immortal<std::vector<HeldCounter>> counters;  // it is used while the program exits
  return *counters;
}

std::string path_of(const struct stat& info) {
  const std::lock_guard guard(held_mutex);
  for (const HeldCounter& counter : held()) {
    if (counter.device == info.st_dev && counter.inode == info.st_ino) return counter.path;
  }
  return "";
}

/// The path of the file `fd` below the root of the tree; "" when it is not a counter in it.
std::string counter_behind(int fd) {
  char room[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = syscall(SYS_readlink, link.c_str(), room, sizeof room);
  if (length <= 0) return "";
  const std::string path(room, static_cast<size_t>(length));
  const std::string& root = sysfs_root();
  if (root.empty() || !path.starts_with(root) || path.find("counters/") == std::string::npos) return "";
  return path.substr(root.size());
}

}  // namespace

void leave_held_counters() {
  renew_after_fork(held_mutex);
  new (&held()) std::vector<HeldCounter>;  // another thread may have been changing it
  any_held = false;
}

void hold_counter(int fd) try {
  const int saved_errno = errno;
  const OwnFiles guard;
  struct stat info;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && path_of(info).empty()) {
    const std::string path = counter_behind(fd);
    if (!path.empty()) {
      const std::lock_guard lock(held_mutex);
      held().push_back({info.st_dev, info.st_ino, path});
      any_held = true;
    }
  }
  errno = saved_errno;
} catch (const std::bad_alloc&) {
  // The file shows what it showed when it was opened.
}

namespace {

/// To be called before `fd` is read at `offset`.
void refresh_held(int fd, off64_t offset) try {
  if (inside_own_files) return;
  struct stat info;
  const int saved_errno = errno;
  const OwnFiles guard;
  if (offset == 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
    const std::string path = path_of(info);
    if (!path.empty()) refresh_file(path.c_str());
  }
  errno = saved_errno;
} catch (const std::bad_alloc&) {
  // The file shows what it showed before.
}

void before_read(int fd) {
  if (!any_held.load(std::memory_order_relaxed)) [[likely]]
    return;
  refresh_held(fd, syscall(SYS_lseek, fd, 0, SEEK_CUR));
}

void before_pread(int fd, off64_t offset) {
  if (!any_held.load(std::memory_order_relaxed)) [[likely]]
    return;
  refresh_held(fd, offset);
}

}  // namespace

}  // namespace uroce::verbs

using namespace uroce::verbs;

UROCE_VERBS_EXPORT ssize_t read(int fd, void* out, size_t bytes) {
  UROCE_NEXT(read);
  if (is_rdma_cm(fd)) [[unlikely]] {
    errno = EINVAL;  // a kernel's device can only be written to
    return -1;
  }
  before_read(fd);
  return real(fd, out, bytes);
}
UROCE_VERBS_EXPORT ssize_t pread(int fd, void* out, size_t bytes, off_t offset) {
  UROCE_NEXT(pread);
  before_pread(fd, offset);
  return real(fd, out, bytes, offset);
}
UROCE_VERBS_EXPORT ssize_t pread64(int fd, void* out, size_t bytes, off64_t offset) {
  UROCE_NEXT(pread64);
  before_pread(fd, offset);
  return real(fd, out, bytes, offset);
}

// Programs that were built with _FORTIFY_SOURCE call these. Like the originals, they abort when the caller's buffer is
// too small.
UROCE_VERBS_EXPORT ssize_t __read_chk(int fd, void* out, size_t bytes, size_t out_bytes) {  // NOLINT: glibc's name
  if (bytes > out_bytes) std::abort();
  return read(fd, out, bytes);
}
UROCE_VERBS_EXPORT ssize_t __pread_chk(int fd, void* out, size_t bytes, off_t offset,  // NOLINT: glibc's name
                                       size_t out_bytes) {
  if (bytes > out_bytes) std::abort();
  return pread(fd, out, bytes, offset);
}
UROCE_VERBS_EXPORT ssize_t __pread64_chk(int fd, void* out, size_t bytes, off64_t offset,  // NOLINT: glibc's name
                                         size_t out_bytes) {
  if (bytes > out_bytes) std::abort();
  return pread64(fd, out, bytes, offset);
}
