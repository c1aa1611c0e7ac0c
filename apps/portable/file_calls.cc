// stat and its relatives, which glibc has as functions since 2.33. Before, the compiler took them from an archive.
// For programs; the shim has wrappers of them (verbs_shim/newer_libraries.h).
//
// As the names of both widths are defined here, the build's 64-bit offsets are undone.
#undef _FILE_OFFSET_BITS
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

// The kernel's structure is the C library's on 64-bit processors.
static_assert(sizeof(struct stat) == sizeof(struct stat64) && sizeof(void*) == 8);

namespace {

int status(int directory, const char* path, void* out, int flags) {
  return static_cast<int>(syscall(SYS_newfstatat, directory, path, out, flags));
}

}  // namespace

#define DEFINE_STATUS(Buffer, of_path, of_link, of_file, of_path_at)                                                \
  HIDDEN int of_path(const char* path, struct Buffer* out) noexcept { return status(AT_FDCWD, path, out, 0); }      \
  HIDDEN int of_link(const char* path, struct Buffer* out) noexcept {                                               \
    return status(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);                                                        \
  }                                                                                                                 \
  HIDDEN int of_file(int fd, struct Buffer* out) noexcept { return static_cast<int>(syscall(SYS_fstat, fd, out)); } \
  HIDDEN int of_path_at(int directory, const char* path, struct Buffer* out, int flags) noexcept {                  \
    return status(directory, path, out, flags);                                                                     \
  }

extern "C" {

DEFINE_STATUS(stat, stat, lstat, fstat, fstatat)
DEFINE_STATUS(stat64, stat64, lstat64, fstat64, fstatat64)

}  // extern "C"
