#include "host/endpoint_note.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "base/file_lock.h"
#include "base/files.h"
#include "host/runtime_dir.h"
#include "host/text_file.h"

namespace uroce {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "endpoint.";
constexpr int kNamesMax = 1000;

bool starts_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

/// The first line of a note whose owner lives, "" while it is incomplete; nothing when no process holds the note.
std::optional<std::string> read_held(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return std::nullopt;
  const bool locked = is_locked(fd);
  char text[PATH_MAX];
  const ssize_t bytes = locked ? pread(fd, text, sizeof text, 0) : 0;
  close(fd);
  if (!locked) return std::nullopt;
  const std::string_view all(text, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  const size_t end = all.find('\n');
  return end == std::string_view::npos ? std::string() : std::string(all.substr(0, end));
}

/// Opens and locks `path`, and checks that the file still has its name then: another process that tidies up may have
/// removed it in between. -1 when errno says why not; EEXIST: another process has it.
int lock_new_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return -1;
  struct stat opened {};
  struct stat named {};
  const bool locked = lock_file(fd);
  const int reason = locked || is_held_by_another(errno) ? EEXIST : errno;
  if (locked && fstat(fd, &opened) == 0 && lstat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino) return fd;
  close(fd);
  errno = reason;
  return -1;
}

/// Removes notes that nobody holds, and DPDK's files of processes whose note is gone.
void tidy(const fs::path& dir) {
  std::error_code code;
  for (const std::string& name : names_in(dir)) {
    if (!starts_with(name, kPrefix)) continue;
    const fs::path path = dir / name;
    // Locked while it is removed, so that no other process can take it over in that moment.
    const int fd = lock_new_file(path);
    if (fd < 0) continue;
    fs::remove(path, code);
    close(fd);
  }
  for (const std::string& name : names_in(dir / "dpdk")) {
    if (!starts_with(name, kEalPrefix)) continue;
    if (!read_held(dir / (kPrefix + name.substr(std::strlen(kEalPrefix))))) remove_tree(dir / "dpdk" / name);
  }
}

}  // namespace

bool EndpointNote::make(std::string& error) {
  if (fd_ >= 0) return true;
  const std::string dir = runtime_dir(error);
  if (dir.empty()) return false;
  tidy(dir);
  const std::string pid = std::to_string(getpid());
  for (int i = 0; i < kNamesMax; i++) {
    name_ = i == 0 ? pid : pid + "." + std::to_string(i);
    path_ = dir + "/" + kPrefix + name_;
    fd_ = lock_new_file(path_);
    if (fd_ >= 0 && ftruncate(fd_, 0) == 0) return true;
    if (fd_ >= 0 || errno != EEXIST) break;
  }
  error = "cannot write " + path_ + ": " + std::strerror(errno);
  remove();
  return false;
}

bool EndpointNote::is_there() const { return fd_ >= 0 && has_name(fd_); }

bool EndpointNote::make_again(std::string& error) {
  const std::string dir = runtime_dir(error);
  if (dir.empty()) return false;
  path_ = dir + "/" + kPrefix + name_;
  const int fd = lock_new_file(path_);
  if (fd < 0) {
    error = "cannot write " + path_ + ": " + std::strerror(errno);
    return false;
  }
  close(std::exchange(fd_, fd));
  return ftruncate(fd_, 0) == 0;
}

int EndpointNote::publish(const std::string& telemetry_socket) {
  if (fd_ < 0) return EBADF;
  return replace_text(fd_, telemetry_socket.empty() ? "" : telemetry_socket + "\n");
}

void EndpointNote::remove() {
  if (fd_ < 0) return;
  unlink(path_.c_str());
  close(std::exchange(fd_, -1));
}

void EndpointNote::leave() {
  name_.clear();
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

std::vector<RunningEndpoint> running_endpoints(std::string& error) {
  std::vector<RunningEndpoint> found;
  const std::string dir = runtime_dir(error);
  if (dir.empty()) return found;
  tidy(dir);
  std::error_code code;
  for (const std::string& name : names_in(dir)) {
    const auto held = starts_with(name, kPrefix) ? read_held(fs::path(dir) / name) : std::nullopt;
    if (!held) continue;
    RunningEndpoint running{std::atoi(name.c_str() + std::strlen(kPrefix)), *held};
    // A container that shares the directory may know it by another path.
    const fs::path here = dir / fs::path("dpdk") / (kEalPrefix + name.substr(std::strlen(kPrefix))) /
                          fs::path(running.telemetry_socket).filename();
    if (!running.telemetry_socket.empty() && fs::exists(here, code)) running.telemetry_socket = here;
    if (!running.telemetry_socket.empty()) found.push_back(std::move(running));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return found;
}

}  // namespace uroce
