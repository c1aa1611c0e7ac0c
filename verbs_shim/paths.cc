// The path layer: functions of libc that take a path, for /sys/class/infiniband* and /dev/infiniband.
//
// UCX refuses a device whose /dev/infiniband/uverbsN is not an accessible character device, NCCL reads GID types from
// sysfs, ibstat knows nothing but files. Each wrapper rewrites the path to a real file (sysfs_tree.h) and calls the
// next definition of the function; every other path costs the comparison of its first characters.
//
// A translation unit of its own: nothing else in the shim depends on it. UROCE_PATHS=0 switches it off.
//
// The build asks for 64-bit file offsets, which makes `open` another name for `open64`. Here both are meant.
#undef _FILE_OFFSET_BITS
#include "paths.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "dpdk/log.h"
#include "shim.h"
#include "sysfs_tree.h"

namespace uroce::verbs {

namespace {

constexpr char kSysPrefix[] = "/sys/class/infiniband";
constexpr char kDevPrefix[] = "/dev/infiniband";
constexpr char kUverbsPath[] = "/dev/infiniband/uverbs0";
constexpr char kRdmaCmPath[] = "/dev/infiniband/rdma_cm";

bool starts_with(const char* path, const char* prefix) { return std::strncmp(path, prefix, std::strlen(prefix)) == 0; }

bool is_ours(const char* path) {
  if (path == nullptr || path[0] != '/') return false;
  if (path[1] == 's') return starts_with(path, kSysPrefix);
  return path[1] == 'd' && starts_with(path, kDevPrefix);
}

bool switched_on() {
  static const bool on = [] {
    const char* text = std::getenv("UROCE_PATHS");
    return text == nullptr || std::strcmp(text, "0") != 0;
  }();
  return on;
}

/// What the program makes of its absence says nothing of the reason, and rsockets turn to TCP without a word.
void note_rdma_cm(const char* path) {
  static std::atomic<bool> said{false};
  if (std::strcmp(path, kRdmaCmPath) != 0 || said.exchange(true)) return;
  log_message(
      LogLevel::kWarning,
      "the program asks for connection management (rdma_cm), which is not there: programs that can exchange their "
      "numbers over TCP work (perftest without -R); rsockets use the kernel's TCP");
}

// Making the tree uses files itself, and drivers look into sysfs while they start: those see the real thing.
thread_local bool inside = false;

}  // namespace

bool translate_path(const char* path, std::string& translated) {
  if (!is_ours(path) || inside || !switched_on()) return false;
  if (std::strcmp(path, kUverbsPath) == 0) {
    translated = "/dev/null";
    return true;
  }
  const int saved_errno = errno;
  inside = true;
  note_rdma_cm(path);
  const std::string& root = sysfs_root();
  if (!root.empty()) {
    refresh_counter(path);
    translated = root + path;
  }
  inside = false;
  errno = saved_errno;
  return !translated.empty();
}

namespace {

/// A path as libc shall see it.
class Path {
 public:
  explicit Path(const char* path) : path_(path) {
    if (translate_path(path, translated_)) path_ = translated_.c_str();
  }
  operator const char*() const { return path_; }  // NOLINT: it is one
  bool changed() const { return !translated_.empty(); }

 private:
  const char* path_;
  std::string translated_;
};

template <typename Function>
Function next(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) found = dlvsym(RTLD_NEXT, name, "GLIBC_2.2.5");  // kept for old binaries only
  return reinterpret_cast<Function>(found);
}

/// A real path in the tree, as the program would name it. In place: the virtual name is the shorter one.
char* virtual_name(char* path) {
  if (path == nullptr || inside || !switched_on()) return path;
  const std::string& root = sysfs_root();
  const size_t length = std::strlen(path);
  if (!root.empty() && length > root.size() && starts_with(path, root.c_str())) {
    std::memmove(path, path + root.size(), length - root.size() + 1);
  }
  return path;
}

bool takes_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

}  // namespace

}  // namespace uroce::verbs

using namespace uroce::verbs;

// `real` is the definition that would have been called without us.
#define UROCE_NEXT(name) static const auto real = next<decltype(&::name)>(#name)

#define UROCE_WRAP_OPEN(name)                                     \
  UROCE_VERBS_EXPORT int name(const char* path, int flags, ...) { \
    UROCE_NEXT(name);                                             \
    mode_t mode = 0;                                              \
    if (takes_mode(flags)) {                                      \
      va_list arguments;                                          \
      va_start(arguments, flags);                                 \
      mode = va_arg(arguments, mode_t);                           \
      va_end(arguments);                                          \
    }                                                             \
    return real(Path(path), flags, mode);                         \
  }
UROCE_WRAP_OPEN(open)
UROCE_WRAP_OPEN(open64)

#define UROCE_WRAP_OPENAT(name)                                                  \
  UROCE_VERBS_EXPORT int name(int directory, const char* path, int flags, ...) { \
    UROCE_NEXT(name);                                                            \
    mode_t mode = 0;                                                             \
    if (takes_mode(flags)) {                                                     \
      va_list arguments;                                                         \
      va_start(arguments, flags);                                                \
      mode = va_arg(arguments, mode_t);                                          \
      va_end(arguments);                                                         \
    }                                                                            \
    return real(directory, Path(path), flags, mode);                             \
  }
UROCE_WRAP_OPENAT(openat)
UROCE_WRAP_OPENAT(openat64)

// What programs built with _FORTIFY_SOURCE call.
#define UROCE_WRAP_OPEN_2(name)                                      \
  UROCE_VERBS_EXPORT int name(const char* path, int flags) {         \
    static const auto real = next<int (*)(const char*, int)>(#name); \
    return real(Path(path), flags);                                  \
  }
UROCE_WRAP_OPEN_2(__open_2)
UROCE_WRAP_OPEN_2(__open64_2)

#define UROCE_WRAP_OPENAT_2(name)                                           \
  UROCE_VERBS_EXPORT int name(int directory, const char* path, int flags) { \
    static const auto real = next<int (*)(int, const char*, int)>(#name);   \
    return real(directory, Path(path), flags);                              \
  }
UROCE_WRAP_OPENAT_2(__openat_2)
UROCE_WRAP_OPENAT_2(__openat64_2)

UROCE_VERBS_EXPORT FILE* fopen(const char* path, const char* mode) {
  UROCE_NEXT(fopen);
  return real(Path(path), mode);
}
UROCE_VERBS_EXPORT FILE* fopen64(const char* path, const char* mode) {
  UROCE_NEXT(fopen64);
  return real(Path(path), mode);
}

#define UROCE_WRAP_STAT(name, Buffer)                                          \
  UROCE_VERBS_EXPORT int name(const char* path, struct Buffer* out) noexcept { \
    UROCE_NEXT(name);                                                          \
    return real(Path(path), out);                                              \
  }
UROCE_WRAP_STAT(stat, stat)
UROCE_WRAP_STAT(stat64, stat64)
UROCE_WRAP_STAT(lstat, stat)
UROCE_WRAP_STAT(lstat64, stat64)

// The names under which programs built before glibc 2.33 call them.
#define UROCE_WRAP_XSTAT(name, Buffer)                                               \
  UROCE_VERBS_EXPORT int name(int version, const char* path, struct Buffer* out) {   \
    static const auto real = next<int (*)(int, const char*, struct Buffer*)>(#name); \
    return real(version, Path(path), out);                                           \
  }
UROCE_WRAP_XSTAT(__xstat, stat)
UROCE_WRAP_XSTAT(__xstat64, stat64)
UROCE_WRAP_XSTAT(__lxstat, stat)
UROCE_WRAP_XSTAT(__lxstat64, stat64)

UROCE_VERBS_EXPORT int fstatat(int directory, const char* path, struct stat* out, int flags) noexcept {
  UROCE_NEXT(fstatat);
  return real(directory, Path(path), out, flags);
}
UROCE_VERBS_EXPORT int fstatat64(int directory, const char* path, struct stat64* out, int flags) noexcept {
  UROCE_NEXT(fstatat64);
  return real(directory, Path(path), out, flags);
}
UROCE_VERBS_EXPORT int statx(int directory, const char* path, int flags, unsigned mask, struct statx* out) noexcept {
  UROCE_NEXT(statx);
  return real(directory, Path(path), flags, mask, out);
}

UROCE_VERBS_EXPORT int access(const char* path, int mode) noexcept {
  UROCE_NEXT(access);
  return real(Path(path), mode);
}
UROCE_VERBS_EXPORT int euidaccess(const char* path, int mode) noexcept {
  UROCE_NEXT(euidaccess);
  return real(Path(path), mode);
}
UROCE_VERBS_EXPORT int eaccess(const char* path, int mode) noexcept {
  UROCE_NEXT(eaccess);
  return real(Path(path), mode);
}
UROCE_VERBS_EXPORT int faccessat(int directory, const char* path, int mode, int flags) noexcept {
  UROCE_NEXT(faccessat);
  return real(directory, Path(path), mode, flags);
}

UROCE_VERBS_EXPORT ssize_t readlink(const char* path, char* out, size_t bytes) noexcept {
  UROCE_NEXT(readlink);
  return real(Path(path), out, bytes);
}
UROCE_VERBS_EXPORT ssize_t readlinkat(int directory, const char* path, char* out, size_t bytes) noexcept {
  UROCE_NEXT(readlinkat);
  return real(directory, Path(path), out, bytes);
}

UROCE_VERBS_EXPORT char* realpath(const char* path, char* out) noexcept {
  UROCE_NEXT(realpath);
  const Path translated(path);
  char* result = real(translated, out);
  return translated.changed() ? virtual_name(result) : result;
}
UROCE_VERBS_EXPORT char* __realpath_chk(const char* path, char* out, size_t out_bytes) {  // NOLINT: glibc's name
  if (out_bytes < PATH_MAX) std::abort();  // as the original does: the caller's buffer is too small
  return realpath(path, out);
}
UROCE_VERBS_EXPORT char* canonicalize_file_name(const char* path) noexcept { return realpath(path, nullptr); }

UROCE_VERBS_EXPORT DIR* opendir(const char* path) {
  UROCE_NEXT(opendir);
  return real(Path(path));
}

using ScandirFilter = int (*)(const dirent*);
using ScandirOrder = int (*)(const dirent**, const dirent**);
UROCE_VERBS_EXPORT int scandir(const char* path, dirent*** list, ScandirFilter filter, ScandirOrder order) {
  UROCE_NEXT(scandir);
  return real(Path(path), list, filter, order);
}
using ScandirFilter64 = int (*)(const dirent64*);
using ScandirOrder64 = int (*)(const dirent64**, const dirent64**);
UROCE_VERBS_EXPORT int scandir64(const char* path, dirent64*** list, ScandirFilter64 filter, ScandirOrder64 order) {
  UROCE_NEXT(scandir64);
  return real(Path(path), list, filter, order);
}

using GlobError = int (*)(const char*, int);
template <typename Real, typename Result>
int glob_in_tree(Real real, const char* pattern, int flags, GlobError on_error, Result* result) {
  const Path translated(pattern);
  const int error = real(translated, flags, on_error, result);
  if (error == 0 && translated.changed()) {
    for (size_t i = 0; i < result->gl_pathc; i++) virtual_name(result->gl_pathv[i]);
  }
  return error;
}
UROCE_VERBS_EXPORT int glob(const char* pattern, int flags, GlobError on_error, glob_t* result) noexcept {
  UROCE_NEXT(glob);
  return glob_in_tree(real, pattern, flags, on_error, result);
}
UROCE_VERBS_EXPORT int glob64(const char* pattern, int flags, GlobError on_error, glob64_t* result) noexcept {
  UROCE_NEXT(glob64);
  return glob_in_tree(real, pattern, flags, on_error, result);
}

UROCE_VERBS_EXPORT const char* ibv_get_sysfs_path() { return "/sys"; }

/// The content of `directory`/`file` without its newline. Its length, or -1.
UROCE_VERBS_EXPORT int ibv_read_sysfs_file(const char* directory, const char* file, char* out, size_t bytes) {
  const std::string path = std::string(directory) + "/" + file;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const ssize_t length = read(fd, out, bytes);
  close(fd);
  if (length <= 0) return static_cast<int>(length);
  if (out[length - 1] == '\n') {
    out[length - 1] = '\0';
    return static_cast<int>(length - 1);
  }
  if (static_cast<size_t>(length) < bytes) out[length] = '\0';
  return static_cast<int>(length);
}
