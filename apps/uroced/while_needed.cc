#include "while_needed.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "host/way_out.h"

namespace uroce::daemon {
namespace {

constexpr Duration kLook = milliseconds(500);
constexpr off_t kLogMost = 1 << 20;  // then it begins anew

}  // namespace

bool Need::is_over(Instant now, bool programs, std::optional<Duration> asked_ago) {
  const bool asked = asked_ago && *asked_ago < kWayOutLinger;
  if (programs || asked) last_ = now;
  return now - last_ >= kWayOutLinger;
}

bool WhileNeeded::has_programs() {
  // What cannot be read says nothing. A directory that was cleaned away is made again, here as by the programs.
  std::string ignored;
  if (!directory_.is_there() && !directory_.make_again(ignored)) return true;
  if (!directory_.scan()) return true;
  const auto& members = directory_.members();
  return std::any_of(members.begin(), members.end(), [this](const auto& member) {
    const segment::MemberRecord& record = member.second;
    return record.role == segment::Role::kProgram && record.leads_out && record.host == host_;
  });
}

bool WhileNeeded::is_over(Instant now) {
  if (now < next_look_) return false;
  next_look_ = now + kLook;
  if (!need_.is_over(now, has_programs(), std::nullopt)) return false;
  // A program may have asked, and not have joined yet. One that asks now has to wait for the lock.
  std::string held;
  if (!note_.take(host_, milliseconds(0), held)) return false;
  if (need_.is_over(now, has_programs(), note_.asked_ago())) return true;
  note_.release();
  return false;
}

UniqueFd open_log(const std::string& host) {
  std::string error;
  const std::string path = log_of_way_out(host, error);
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (struct stat st{}; file && fstat(file.get(), &st) == 0 && st.st_size > kLogMost) {
    static_cast<void>(ftruncate(file.get(), 0) == 0);
  }
  return file ? std::move(file) : UniqueFd(open("/dev/null", O_WRONLY | O_CLOEXEC));
}

}  // namespace uroce::daemon
