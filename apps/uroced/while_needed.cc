#include "while_needed.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/unique_fd.h"
#include "host/runtime_dir.h"
#include "host/way_out.h"

namespace uroce::daemon {
namespace {

constexpr Duration kLook = milliseconds(500);

}  // namespace

bool Need::is_over(Instant now, bool programs, std::optional<Duration> asked_ago) {
  const bool asked = asked_ago && *asked_ago < kWayOutLinger;
  if (programs || asked) last_ = now;
  return now - last_ >= kWayOutLinger;
}

bool WhileNeeded::has_programs() {
  // What cannot be read says nothing.
  if (!directory_.scan()) return true;
  const auto& members = directory_.members();
  return std::any_of(members.begin(), members.end(),
                     [](const auto& member) { return member.second.role != segment::Role::kUplink; });
}

bool WhileNeeded::is_over(Instant now) {
  if (now < next_look_) return false;
  next_look_ = now + kLook;
  if (!need_.is_over(now, has_programs(), std::nullopt)) return false;
  // A program may have asked, and not have joined yet. One that asks now has to wait for the lock.
  std::string held;
  if (!note_.take(milliseconds(0), held)) return false;
  if (need_.is_over(now, has_programs(), note_.asked_ago())) return true;
  note_.release();
  return false;
}

bool speak_to_file(std::string& error) {
  const std::string directory = runtime_dir(error);
  if (directory.empty()) return false;
  const std::string path = directory + "/uroced.log";
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file || dup2(file.get(), STDOUT_FILENO) < 0 || dup2(file.get(), STDERR_FILENO) < 0) {
    error = "cannot write " + path + ": " + std::strerror(errno);
    return false;
  }
  return true;
}

}  // namespace uroce::daemon
