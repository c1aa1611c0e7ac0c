#include "host/way_out_note.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <string_view>

#include "base/file_lock.h"
#include "base/printable.h"
#include "host/runtime_dir.h"
#include "host/text_file.h"

namespace uroce {
namespace {

constexpr long kLookNs = 10'000'000;

/// The same for all containers, and from 0 when the machine starts.
Duration since_boot() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return Duration{now.tv_sec * 1'000'000'000 + now.tv_nsec};
}

/// When somebody asked, and what came of it: "NANOSECONDS REASON".
struct Line {
  Duration asked{-1};
  std::string failure;
};

Line read_line(int fd) {
  std::array<char, 512> bytes{};
  const ssize_t count = pread(fd, bytes.data(), bytes.size(), 0);
  const std::string_view text(bytes.data(), count > 0 ? static_cast<size_t>(count) : 0);
  Line line;
  int64_t ns = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), ns);
  if (code != std::errc() || end == text.data() + text.size() || *end != ' ' || ns < 0) return line;
  line.asked = Duration{ns};
  line.failure = printable(text.substr(static_cast<size_t>(end - text.data()) + 1));
  return line;
}

}  // namespace

bool WayOutNote::take(const std::string& host, Duration patience, std::string& error) {
  const std::string directory = runtime_dir(error);
  if (directory.empty()) return false;
  const std::string path = directory + "/way-out." + host;
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) {
    error = "cannot open " + path + ": " + std::strerror(errno);
    return false;
  }
  const Duration latest{since_boot().ns + patience.ns};
  while (!lock_file(fd.get())) {
    if (!is_held_by_another(errno) || since_boot() >= latest) {
      const int code = errno;
      error = is_held_by_another(code)
                  ? "another program of this user is still starting uroced, or was stopped meanwhile (" + path + ")"
                  : path + " cannot be locked: " + std::strerror(code);
      return false;
    }
    const timespec moment{0, kLookNs};
    nanosleep(&moment, nullptr);
  }
  fd_ = std::move(fd);
  return true;
}

void WayOutNote::release() {
  // A child that was forked meanwhile has the descriptor, too.
  struct flock none = lock_range(F_UNLCK);
  if (fd_) fcntl(fd_.get(), F_OFD_SETLK, &none);
  fd_.reset();
}

void WayOutNote::write(const std::string& failure) {
  // What cannot be written is as if nobody had asked: the way out ends a little earlier, or is tried for once more.
  replace_text(fd_.get(), std::to_string(since_boot().ns) + " " + failure);
}

std::optional<Duration> WayOutNote::asked_ago() const {
  const Duration asked = read_line(fd_.get()).asked;
  const Duration now = since_boot();
  // A later time is one from before the machine started anew.
  if (asked.ns < 0 || asked > now) return std::nullopt;
  return Duration{now.ns - asked.ns};
}

std::string WayOutNote::failure() const { return read_line(fd_.get()).failure; }

}  // namespace uroce
