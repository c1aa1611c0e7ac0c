#include "members.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include "host/runtime_dir.h"
#include "segment/directory.h"

namespace uroce::launcher {
namespace {

constexpr std::string_view kSegment = "shmlan";

/// The port that leads to the segment with this directory; "" when there is none.
std::string port_of(std::string name) {
  if (!name.starts_with(kSegment)) return "";
  if (name.size() > kSegment.size()) {
    if (name[kSegment.size()] != '.') return "";
    name[kSegment.size()] = ':';
  }
  return name;
}

Member member_of(const segment::MemberRecord& record, const std::string& port) {
  Member member{record.pid, record.program, port, record.host, {}};
  for (const LocalAddress& address : record.addresses) member.addresses.push_back(to_string(address));
  return member;
}

}  // namespace

std::vector<Member> other_members(const std::vector<Program>& programs) {
  std::vector<Member> others;
  std::string error;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(runtime_dir(error), code)) {
    const std::string port = port_of(entry.path().filename());
    segment::Directory directory;
    if (port.empty() || !directory.open(entry.path(), error)) continue;
    directory.scan();
    // Containers number their processes each for itself: one program accounts for one member.
    std::multiset<int> known;
    for (const Program& program : programs) known.insert(program.pid);
    for (const auto& [id, record] : directory.members()) {
      if (const auto found = known.find(record.pid); found != known.end()) {
        known.erase(found);
      } else {
        others.push_back(member_of(record, port));
      }
    }
  }
  std::sort(others.begin(), others.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return others;
}

}  // namespace uroce::launcher
