// Who is on the segments of the runtime directory, as the members' records tell: also programs whose telemetry cannot
// be found, because it did not start or lies in another directory.
#pragma once

#include <string>
#include <vector>

#include "programs.h"

namespace uroce::launcher {

struct Member {
  int pid = 0;  // as it sees it
  std::string program;
  std::string port;  // "shmlan", "shmlan:NAME"
  std::string host;
  std::vector<std::string> addresses;
};

/// Those that are none of `programs`.
std::vector<Member> other_members(const std::vector<Program>& programs);

}  // namespace uroce::launcher
