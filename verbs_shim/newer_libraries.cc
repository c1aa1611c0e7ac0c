// As in paths.cc: stat and stat64 have one name otherwise.
#undef _FILE_OFFSET_BITS
#include "newer_libraries.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

namespace uroce::verbs {
namespace {

// The kernel's structure is the C library's on 64-bit processors, and stat64 is stat.
static_assert(sizeof(struct stat) == sizeof(struct stat64) && sizeof(void*) == 8);

int call_fstatat(int directory, const char* path, struct stat* out, int flags) {
  return static_cast<int>(syscall(SYS_newfstatat, directory, path, out, flags));
}
int call_stat(const char* path, struct stat* out) { return call_fstatat(AT_FDCWD, path, out, 0); }
int call_lstat(const char* path, struct stat* out) { return call_fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW); }
int call_fstat(int fd, struct stat* out) { return static_cast<int>(syscall(SYS_fstat, fd, out)); }

int call_close_range(unsigned first, unsigned last, int flags) {
#if defined(SYS_close_range)
  return static_cast<int>(syscall(SYS_close_range, first, last, flags));
#else
  static_cast<void>(first), static_cast<void>(last), static_cast<void>(flags);
  errno = ENOSYS;
  return -1;
#endif
}

/// Also beneath a kernel that cannot close a range.
void call_closefrom(int first) {
  const unsigned from = first < 0 ? 0 : static_cast<unsigned>(first);
  if (call_close_range(from, UINT_MAX, 0) == 0) return;
  const long most = sysconf(_SC_OPEN_MAX);
  for (long fd = from; fd < (most < 0 ? INT_MAX : most); fd++) syscall(SYS_close, fd);
}

struct Call {
  const char* name;
  void* function;
};

}  // namespace

void* call_of_newer_libraries(const char* name) {
  const Call calls[] = {
      {"stat", reinterpret_cast<void*>(call_stat)},
      {"stat64", reinterpret_cast<void*>(call_stat)},
      {"lstat", reinterpret_cast<void*>(call_lstat)},
      {"lstat64", reinterpret_cast<void*>(call_lstat)},
      {"fstat", reinterpret_cast<void*>(call_fstat)},
      {"fstat64", reinterpret_cast<void*>(call_fstat)},
      {"fstatat", reinterpret_cast<void*>(call_fstatat)},
      {"fstatat64", reinterpret_cast<void*>(call_fstatat)},
      {"close_range", reinterpret_cast<void*>(call_close_range)},
      {"closefrom", reinterpret_cast<void*>(call_closefrom)},
  };
  for (const Call& call : calls) {
    if (std::strcmp(call.name, name) == 0) return call.function;
  }
  return nullptr;
}

}  // namespace uroce::verbs
