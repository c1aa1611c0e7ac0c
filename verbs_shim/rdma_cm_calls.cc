// Wrappers for the functions of libc that take a descriptor, for those of /dev/infiniband/rdma_cm. Every other
// descriptor costs one load; then the next definition of the function is called, which may be that of another preloaded
// library (librspreload).
#undef _FILE_OFFSET_BITS
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdarg>

#include "next_symbol.h"
#include "rdma_cm_device.h"
#include "shim.h"

using namespace uroce::verbs;

UROCE_VERBS_EXPORT ssize_t write(int fd, const void* data, size_t bytes) {
  UROCE_NEXT(write);
  if (!is_rdma_cm(fd)) [[likely]]
    return real(fd, data, bytes);
  return write_rdma_cm(fd, data, bytes);
}

// To a kernel's device, each piece would be a write of its own.
UROCE_VERBS_EXPORT ssize_t writev(int fd, const iovec* pieces, int count) {
  UROCE_NEXT(writev);
  if (!is_rdma_cm(fd)) [[likely]]
    return real(fd, pieces, count);
  if (count < 0 || count > IOV_MAX) {
    errno = EINVAL;
    return -1;
  }
  ssize_t written = 0;
  for (int i = 0; i < count; i++) {
    const ssize_t done = write_rdma_cm(fd, pieces[i].iov_base, pieces[i].iov_len);
    if (done < 0) return written != 0 ? written : -1;
    written += done;
  }
  return written;
}

UROCE_VERBS_EXPORT int close(int fd) {
  UROCE_NEXT(close);
  if (is_rdma_cm(fd)) [[unlikely]]
    forget_rdma_cm(fd);
  return real(fd);
}

UROCE_VERBS_EXPORT int close_range(unsigned first, unsigned last, int flags) noexcept {
  UROCE_NEXT(close_range);
  const bool closes = (flags & (1 << 2)) == 0;  // CLOSE_RANGE_CLOEXEC only marks them
  if (closes && first <= last) forget_rdma_cm(first, last);
  return real(first, last, flags);
}

UROCE_VERBS_EXPORT void closefrom(int first) noexcept {
  UROCE_NEXT(closefrom);
  forget_rdma_cm(first < 0 ? 0 : static_cast<unsigned>(first), UINT_MAX);
  real(first);
}

UROCE_VERBS_EXPORT int dup(int fd) noexcept {
  UROCE_NEXT(dup);
  const int copy = real(fd);
  if (copy >= 0 && is_rdma_cm(fd)) duplicate_rdma_cm(fd, copy);
  return copy;
}

namespace {

/// For dup2 and dup3: if the call succeeds, what `to` was is closed before `to` becomes `from`.
template <typename Duplicate>
int duplicate_to(int from, int to, Duplicate&& duplicate) {
  if (from == to || (!is_rdma_cm(from) && !is_rdma_cm(to))) return duplicate();
  const int copy = duplicate();
  if (copy < 0) return copy;  // `to` stays what it was
  if (is_rdma_cm(to)) forget_rdma_cm(to);
  if (is_rdma_cm(from)) duplicate_rdma_cm(from, copy);
  return copy;
}

}  // namespace

UROCE_VERBS_EXPORT int dup2(int from, int to) noexcept {
  UROCE_NEXT(dup2);
  return duplicate_to(from, to, [&] { return real(from, to); });
}
UROCE_VERBS_EXPORT int dup3(int from, int to, int flags) noexcept {
  UROCE_NEXT(dup3);
  return duplicate_to(from, to, [&] { return real(from, to, flags); });
}

#define UROCE_WRAP_FCNTL(name)                                                  \
  UROCE_VERBS_EXPORT int name(int fd, int command, ...) {                       \
    UROCE_NEXT(name);                                                           \
    va_list arguments;                                                          \
    va_start(arguments, command);                                               \
    void* const argument = va_arg(arguments, void*);                            \
    va_end(arguments);                                                          \
    const int result = real(fd, command, argument);                             \
    const bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;       \
    if (copies && result >= 0 && is_rdma_cm(fd)) duplicate_rdma_cm(fd, result); \
    return result;                                                              \
  }
UROCE_WRAP_FCNTL(fcntl)
UROCE_WRAP_FCNTL(fcntl64)

// A kernel's device is a character device, and programs insist on that.
#define UROCE_WRAP_FSTAT(name, Buffer)                               \
  UROCE_VERBS_EXPORT int name(int fd, struct Buffer* out) noexcept { \
    UROCE_NEXT(name);                                                \
    const int result = real(fd, out);                                \
    if (is_rdma_cm(fd) && result == 0) [[unlikely]]                  \
      as_device(*out);                                               \
    return result;                                                   \
  }
UROCE_WRAP_FSTAT(fstat, stat)
UROCE_WRAP_FSTAT(fstat64, stat64)

// The names by which programs that were built before glibc 2.33 call them.
#define UROCE_WRAP_FXSTAT(name, Buffer)                                  \
  UROCE_VERBS_EXPORT int name(int version, int fd, struct Buffer* out) { \
    UROCE_NEXT_AS(name, int (*)(int, int, struct Buffer*));              \
    const int result = real(version, fd, out);                           \
    if (is_rdma_cm(fd) && result == 0) [[unlikely]]                      \
      as_device(*out);                                                   \
    return result;                                                       \
  }
UROCE_WRAP_FXSTAT(__fxstat, stat)
UROCE_WRAP_FXSTAT(__fxstat64, stat64)
