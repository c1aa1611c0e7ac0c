#include "host/runtime_dir.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <vector>

#include "host/descriptors.h"

namespace uroce {
namespace {

constexpr const char* kRemedy = "; name another place with UROCE_RUNTIME_DIR";

/// Makes the directory if necessary. Returns false, with one line in `error`, when this user cannot use it.
bool can_have(const std::string& dir, std::string& error) {
  if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) {
    error = "cannot create " + dir + ": " + std::strerror(errno) + kRemedy;
    return false;
  }
  struct stat st {};
  const bool ours = lstat(dir.c_str(), &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
  if (!ours) {
    error = dir + " is not a directory of this user" + kRemedy;
    return false;
  }
  // Tested with access rights, because root of a user namespace is not root outside.
  if (faccessat(AT_FDCWD, dir.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) != 0) {
    error = "cannot use " + dir + ": " + std::strerror(errno) + kRemedy;
    return false;
  }
  return true;
}

/// Empty when errno says why they are not known.
std::vector<std::string> candidates() {
  const auto uid = machine_uid();
  if (!uid) return {};
  std::vector<std::string> dirs;
  if (geteuid() == 0) dirs.emplace_back("/run/uroce");
  dirs.push_back("/tmp/uroce-" + std::to_string(*uid));
  if (const char* xdg = std::getenv("XDG_RUNTIME_DIR"); xdg != nullptr && *xdg != 0) {
    dirs.push_back(std::string(xdg) + "/uroce");
  }
  return dirs;
}

/// The text of a short file of the kernel's; "" where there is none. Nothing, when errno says why it could not be read:
/// a stream would just look empty then.
std::optional<std::string> text_of(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return could_not_ask(errno) ? std::nullopt : std::optional(std::string());
  char text[4096];
  const ssize_t bytes = read(fd, text, sizeof text);
  const int error = errno;
  close(fd);
  errno = error;
  if (bytes < 0 && could_not_ask(error)) return std::nullopt;
  return std::string(text, bytes > 0 ? static_cast<size_t>(bytes) : 0);
}

/// "" where there are none. Nothing, when errno says why it is not known.
std::optional<std::string> network_namespace() {
  char name[64] = {};
  if (readlink("/proc/self/ns/net", name, sizeof name - 1) < 0 && could_not_ask(errno)) return std::nullopt;
  return name;
}

}  // namespace

unsigned outer_uid(unsigned uid, const std::string& map) {
  std::istringstream lines(map);
  for (unsigned inside, outside, count; lines >> inside >> outside >> count;) {
    if (uid >= inside && uid - inside < count) return outside + (uid - inside);
  }
  return uid;
}

std::optional<unsigned> machine_uid() {
  const auto map = text_of("/proc/self/uid_map");
  return map ? std::optional(outer_uid(geteuid(), *map)) : std::nullopt;
}

std::string runtime_dir(std::string& error) {
  if (const char* own = std::getenv("UROCE_RUNTIME_DIR"); own != nullptr && *own != 0) {
    return can_have(own, error) ? own : "";
  }
  const std::vector<std::string> dirs = candidates();
  std::string first_error = dirs.empty() ? std::string("this user is not known: ") + std::strerror(errno) : "";
  for (const std::string& dir : dirs) {
    std::string why;
    if (can_have(dir, why)) return dir;
    if (first_error.empty()) first_error = why;
  }
  error = first_error;
  return "";
}

std::string place_in_the_world() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return std::string(host) + " " + network_namespace().value_or("");
}

std::string place_on_the_machine() {
  const auto boot = text_of("/proc/sys/kernel/random/boot_id");
  const auto network = boot ? network_namespace() : std::nullopt;
  if (!network) return "";
  if (boot->empty()) return place_in_the_world();
  return boot->substr(0, boot->find('\n')) + " " + *network;
}

}  // namespace uroce
