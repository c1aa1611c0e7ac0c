// The path layer: wrappers for functions of libc that take a path, for /sys/class/infiniband*, /sys/class/misc/rdma_cm
// and /dev/infiniband.
//
// UCX refuses a device whose /dev/infiniband/uverbsN is not an accessible character device, NCCL reads GID types from
// sysfs, and ibstat uses nothing but files. Each wrapper rewrites the path to a real file (sysfs_tree.h) and calls the
// next definition of the function; every other path costs a look at its characters.
//
// A program may change its directory into the tree: that is a real directory, from which the kernel finds relative
// paths by itself, and which children inherit. Only three cases need help: a name that leads into the tree from outside
// (from /sys/class to "infiniband/uroce0"), one that leads out of it ("../net"), and getcwd.
//
// Nothing else in the shim depends on this file. UROCE_PATHS=0 switches the path layer off.
//
// The build asks for 64-bit file offsets, which makes `open` another name for `open64`. Both are wrapped here, so that
// is undone.
#undef _FILE_OFFSET_BITS
#include "paths.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>

#include "dpdk/log.h"
#include "held_counters.h"
#include "next_symbol.h"
#include "rdma_cm_device.h"
#include "shim.h"
#include "sysfs_tree.h"

namespace uroce::verbs {

namespace {

constexpr char kSysPrefix[] = "/sys/class/infiniband";
constexpr char kMiscPrefix[] = "/sys/class/misc/rdma_cm";
constexpr char kDevPrefix[] = "/dev/infiniband";
constexpr char kUverbsPath[] = "/dev/infiniband/uverbs0";
constexpr char kRdmaCmPath[] = "/dev/infiniband/rdma_cm";
constexpr char kTreeMark[] = "/sysfs-";  // the names of root directories begin so (sysfs_tree.cc)

bool starts_with(const char* path, const char* prefix) { return std::strncmp(path, prefix, std::strlen(prefix)) == 0; }

bool is_ours(const char* path) {
  if (path == nullptr || path[0] != '/') return false;
  if (path[1] == 's') return starts_with(path, kSysPrefix) || starts_with(path, kMiscPrefix);
  return path[1] == 'd' && starts_with(path, kDevPrefix);
}

/// Whether the path may lead to one of our prefixes, from any directory. This check is all that other relative paths
/// cost.
bool may_lead_in(const char* path) {
  return std::strstr(path, "infiniband") != nullptr || std::strstr(path, "rdma_cm") != nullptr;
}

bool goes_up(const char* path) { return std::strstr(path, "..") != nullptr; }

/// The part of `path` behind the root of a tree (ours, or that of a parent whose working directory we inherited), which
/// is the name that the program knows. Null when the path is in no tree.
const char* name_in_a_tree(const char* path) {
  const char* tree = std::strstr(path, kTreeMark);
  if (tree == nullptr) return nullptr;
  const char* rest = std::strchr(tree + 1, '/');
  return rest != nullptr && (starts_with(rest, "/sys/class") || starts_with(rest, "/dev/infiniband")) ? rest : nullptr;
}

// Without memory for a name, a path is passed on as it is: most of these functions promise to throw nothing.

std::string path_of_descriptor(int fd) try {
  char room[PATH_MAX];
  const ssize_t length = syscall(SYS_readlink, ("/proc/self/fd/" + std::to_string(fd)).c_str(), room, sizeof room);
  return length > 0 ? std::string(room, static_cast<size_t>(length)) : "";
} catch (const std::bad_alloc&) {
  return "";
}

std::string working_directory() try {
  char room[PATH_MAX];
  return syscall(SYS_getcwd, room, sizeof room) > 0 ? room : "";
} catch (const std::bad_alloc&) {
  return "";
}

/// Whether the working directory is in a tree. Determined once, and again when the directory changes.
enum class Cwd : uint8_t { kUnknown, kElsewhere, kInATree };
std::atomic<Cwd> cwd{Cwd::kUnknown};
bool cwd_in_a_tree() {
  if (cwd == Cwd::kUnknown) {
    cwd = name_in_a_tree(working_directory().c_str()) != nullptr ? Cwd::kInATree : Cwd::kElsewhere;
  }
  return cwd == Cwd::kInATree;
}

/// The absolute path that a program means, if its path leads into a tree or out of one in a way that the kernel cannot
/// follow. "" otherwise.
std::string absolute_path(int directory, const char* path) try {
  if (is_ours(path)) return goes_up(path) ? std::filesystem::path(path).lexically_normal().string() : path;
  if (path[0] == '/') return "";
  const bool up = goes_up(path);
  const bool in = may_lead_in(path);
  std::string base;
  if (directory == AT_FDCWD) {
    if (in || (up && cwd_in_a_tree())) base = working_directory();
  } else if (in) {
    base = path_of_descriptor(directory);
  }
  if (base.empty()) return "";
  const char* const name = name_in_a_tree(base.c_str());
  if (name != nullptr && !up) return "";  // it stays inside the tree, so the kernel finds it
  std::string meant = (std::filesystem::path(name != nullptr ? name : base.c_str()) / path).lexically_normal();
  return name != nullptr || is_ours(meant.c_str()) ? meant : "";
} catch (const std::bad_alloc&) {
  return "";
}

bool switched_on() { return path_layer_on(); }

/// Libc's headers say of most functions that their path is never null, so the compiler would drop a comparison. A
/// program may pass null all the same: EFAULT then.
bool is_null(const char* path) {
  asm("" : "+r"(path));
  return path == nullptr;
}

}  // namespace

bool path_layer_on() {
  static const bool on = [] {
    const char* text = std::getenv("UROCE_PATHS");
    return text == nullptr || std::strcmp(text, "0") != 0;
  }();
  return on;
}

constinit thread_local bool inside_own_files = false;

bool translate_path(const char* path, std::string& translated, int directory) try {
  if (is_null(path) || inside_own_files || !switched_on()) return false;
  const int saved_errno = errno;
  const std::string meant = absolute_path(directory, path);
  if (meant.empty()) return false;
  if (meant == kUverbsPath || meant == kRdmaCmPath) {
    translated = "/dev/null";
  } else if (!is_ours(meant.c_str())) {
    translated = meant;  // it leads out of a tree, to the real file
  } else {
    const OwnFiles guard;
    const std::string& root = sysfs_root();
    if (!root.empty()) {
      refresh_file(meant.c_str());
      translated = root + meant;
    }
  }
  errno = saved_errno;
  return !translated.empty();
} catch (const std::bad_alloc&) {
  return false;
}

namespace {

/// Whether the path is that of the connection manager's device, which is opened in a way of its own.
bool names_rdma_cm(const char* path, int directory = AT_FDCWD) {
  if (is_null(path) || std::strstr(path, "rdma_cm") == nullptr || inside_own_files || !switched_on()) return false;
  return std::strcmp(path, kRdmaCmPath) == 0 || absolute_path(directory, path) == kRdmaCmPath;
}

/// A path as it is passed to libc.
class Path {
 public:
  explicit Path(const char* path, int directory = AT_FDCWD) : path_(path) {
    if (translate_path(path, translated_, directory)) path_ = translated_.c_str();
  }
  operator const char*() const { return path_; }  // NOLINT: it is one
  bool changed() const { return !translated_.empty(); }
  /// Whether it names, or would name, a file of the tree.
  bool is_ours() const { return changed() || (!is_null(path_) && verbs::is_ours(path_)); }

 private:
  const char* path_;
  std::string translated_;
};

/// Changes a real path in a tree to the name that the program knows, in place, because that name is shorter.
char* virtual_name(char* path) {
  if (path == nullptr || inside_own_files || !switched_on()) return path;
  const char* const name = name_in_a_tree(path);
  if (name != nullptr) std::memmove(path, name, std::strlen(name) + 1);
  return path;
}

/// A file that is missing because it could not be written is not one that a kernel does not have.
void tell_why_missing(const Path& path) {
  const int code = path.is_ours() && errno == ENOENT ? why_files_are_missing() : 0;
  if (code != 0) errno = code;
}

/// Remembers that a counter was opened, so that the file is up to date whenever it is read from its beginning.
int opened(const Path& path, int fd) {
  if (fd < 0) tell_why_missing(path);
  if (fd < 0 || inside_own_files || !switched_on()) return fd;
  if (path.changed() || (path[0] != '/' && cwd_in_a_tree())) hold_counter(fd);
  return fd;
}
FILE* opened(const Path& path, FILE* file) {
  if (file == nullptr) {
    tell_why_missing(path);
  } else {
    opened(path, fileno(file));
  }
  return file;
}

bool takes_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

}  // namespace

}  // namespace uroce::verbs

using namespace uroce::verbs;

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
    if (names_rdma_cm(path)) return open_rdma_cm(flags);          \
    const Path translated(path);                                  \
    return opened(translated, real(translated, flags, mode));     \
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
    if (names_rdma_cm(path, directory)) return open_rdma_cm(flags);              \
    const Path translated(path, directory);                                      \
    return opened(translated, real(directory, translated, flags, mode));         \
  }
UROCE_WRAP_OPENAT(openat)
UROCE_WRAP_OPENAT(openat64)

// Programs that were built with _FORTIFY_SOURCE call these.
#define UROCE_WRAP_OPEN_2(name)                              \
  UROCE_VERBS_EXPORT int name(const char* path, int flags) { \
    UROCE_NEXT_AS(name, int (*)(const char*, int));          \
    if (names_rdma_cm(path)) return open_rdma_cm(flags);     \
    const Path translated(path);                             \
    return opened(translated, real(translated, flags));      \
  }
UROCE_WRAP_OPEN_2(__open_2)
UROCE_WRAP_OPEN_2(__open64_2)

#define UROCE_WRAP_OPENAT_2(name)                                           \
  UROCE_VERBS_EXPORT int name(int directory, const char* path, int flags) { \
    UROCE_NEXT_AS(name, int (*)(int, const char*, int));                    \
    if (names_rdma_cm(path, directory)) return open_rdma_cm(flags);         \
    const Path translated(path, directory);                                 \
    return opened(translated, real(directory, translated, flags));          \
  }
UROCE_WRAP_OPENAT_2(__openat_2)
UROCE_WRAP_OPENAT_2(__openat64_2)

UROCE_VERBS_EXPORT FILE* fopen(const char* path, const char* mode) {
  UROCE_NEXT(fopen);
  const Path translated(path);
  return opened(translated, real(translated, mode));
}
UROCE_VERBS_EXPORT FILE* fopen64(const char* path, const char* mode) {
  UROCE_NEXT(fopen64);
  const Path translated(path);
  return opened(translated, real(translated, mode));
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

// The names by which programs that were built before glibc 2.33 call them.
#define UROCE_WRAP_XSTAT(name, Buffer)                                             \
  UROCE_VERBS_EXPORT int name(int version, const char* path, struct Buffer* out) { \
    UROCE_NEXT_AS(name, int (*)(int, const char*, struct Buffer*));                \
    return real(version, Path(path), out);                                         \
  }
UROCE_WRAP_XSTAT(__xstat, stat)
UROCE_WRAP_XSTAT(__xstat64, stat64)
UROCE_WRAP_XSTAT(__lxstat, stat)
UROCE_WRAP_XSTAT(__lxstat64, stat64)

namespace {

/// Whether a call means a descriptor, with AT_EMPTY_PATH, which stands for a device.
bool means_rdma_cm(int fd, const char* path, int flags) {
  return (flags & AT_EMPTY_PATH) != 0 && path != nullptr && *path == '\0' && is_rdma_cm(fd);
}

}  // namespace

UROCE_VERBS_EXPORT int fstatat(int directory, const char* path, struct stat* out, int flags) noexcept {
  UROCE_NEXT(fstatat);
  const int result = real(directory, Path(path, directory), out, flags);
  if (result == 0 && means_rdma_cm(directory, path, flags)) as_device(*out);
  return result;
}
UROCE_VERBS_EXPORT int fstatat64(int directory, const char* path, struct stat64* out, int flags) noexcept {
  UROCE_NEXT(fstatat64);
  const int result = real(directory, Path(path, directory), out, flags);
  if (result == 0 && means_rdma_cm(directory, path, flags)) as_device(*out);
  return result;
}
#define UROCE_WRAP_FXSTATAT(name, Buffer)                                                                    \
  UROCE_VERBS_EXPORT int name(int version, int directory, const char* path, struct Buffer* out, int flags) { \
    UROCE_NEXT_AS(name, int (*)(int, int, const char*, struct Buffer*, int));                                \
    const int result = real(version, directory, Path(path, directory), out, flags);                          \
    if (result == 0 && means_rdma_cm(directory, path, flags)) as_device(*out);                               \
    return result;                                                                                           \
  }
UROCE_WRAP_FXSTATAT(__fxstatat, stat)
UROCE_WRAP_FXSTATAT(__fxstatat64, stat64)
UROCE_VERBS_EXPORT int statx(int directory, const char* path, int flags, unsigned mask, struct statx* out) noexcept {
  UROCE_NEXT(statx);
  const int result = real(directory, Path(path, directory), flags, mask, out);
  if (result != 0 || !means_rdma_cm(directory, path, flags)) return result;
  struct stat device {};
  as_device(device);
  out->stx_mode = static_cast<uint16_t>(device.st_mode);
  out->stx_rdev_major = major(device.st_rdev);
  out->stx_rdev_minor = minor(device.st_rdev);
  return result;
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
  return real(directory, Path(path, directory), mode, flags);
}

UROCE_VERBS_EXPORT ssize_t readlink(const char* path, char* out, size_t bytes) noexcept {
  UROCE_NEXT(readlink);
  return real(Path(path), out, bytes);
}
UROCE_VERBS_EXPORT ssize_t readlinkat(int directory, const char* path, char* out, size_t bytes) noexcept {
  UROCE_NEXT(readlinkat);
  return real(directory, Path(path, directory), out, bytes);
}

UROCE_VERBS_EXPORT char* realpath(const char* path, char* out) noexcept {
  UROCE_NEXT(realpath);
  return virtual_name(real(Path(path), out));
}
UROCE_VERBS_EXPORT char* __realpath_chk(const char* path, char* out, size_t out_bytes) {  // NOLINT: glibc's name
  if (out_bytes < PATH_MAX) std::abort();  // as the original does: the caller's buffer is too small
  return realpath(path, out);
}
UROCE_VERBS_EXPORT char* canonicalize_file_name(const char* path) noexcept { return realpath(path, nullptr); }

UROCE_VERBS_EXPORT int chdir(const char* path) noexcept {
  UROCE_NEXT(chdir);
  const int error = real(Path(path));
  if (error == 0) cwd = Cwd::kUnknown;
  return error;
}
UROCE_VERBS_EXPORT int fchdir(int directory) noexcept {
  UROCE_NEXT(fchdir);
  const int error = real(directory);
  if (error == 0) cwd = Cwd::kUnknown;
  return error;
}
UROCE_VERBS_EXPORT char* getcwd(char* out, size_t bytes) noexcept {
  UROCE_NEXT(getcwd);
  if (inside_own_files || !switched_on() || !cwd_in_a_tree()) return real(out, bytes);
  std::string name = working_directory();
  name.resize(std::strlen(virtual_name(name.data())));
  if (bytes == 0 && out == nullptr) bytes = name.size() + 1;
  if (bytes <= name.size()) {
    errno = bytes == 0 ? EINVAL : ERANGE;
    return nullptr;
  }
  if (out == nullptr) out = static_cast<char*>(std::malloc(bytes));
  return out != nullptr ? static_cast<char*>(std::memcpy(out, name.c_str(), name.size() + 1)) : nullptr;
}
UROCE_VERBS_EXPORT char* __getcwd_chk(char* out, size_t bytes, size_t out_bytes) {  // NOLINT: glibc's name
  if (bytes > out_bytes) std::abort();  // as the original does: the caller's buffer is too small
  return getcwd(out, bytes);
}
UROCE_VERBS_EXPORT char* get_current_dir_name() noexcept {
  UROCE_NEXT(get_current_dir_name);
  return cwd_in_a_tree() ? getcwd(nullptr, 0) : real();
}

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
int glob_in_tree(Real& real, const char* pattern, int flags, GlobError on_error, Result* result) {
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

/// Reads `directory`/`file` without its final newline. Returns the length, or -1.
UROCE_VERBS_EXPORT int ibv_read_sysfs_file(const char* directory, const char* file, char* out, size_t bytes) try {
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
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return -1;
}
