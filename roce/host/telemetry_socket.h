// Asks a process over DPDK's telemetry socket, with patience for each step. For one thread at a time.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/unique_fd.h"

namespace uroce {

class TelemetrySocket {
 public:
  /// Connects; waits for room in the other's queue of connections for so long.
  TelemetrySocket(const std::string& path, std::chrono::milliseconds patience);

  /// What the process says first. To be called before `ask`; false when it does not come in time.
  bool greet(std::chrono::milliseconds patience);
  /// The JSON with which the command is answered, as it came. Nothing when no answer came in time; then, none comes to
  /// later questions either, since a late answer would be taken for theirs.
  std::optional<std::string> ask(const std::string& command, std::chrono::milliseconds patience);
  /// The two halves of `ask`, for those who ask several processes at the same time. False when it cannot be asked.
  bool send_question(const std::string& command);
  std::optional<std::string> receive_answer(std::chrono::milliseconds patience);
  /// The process that answers, as this one's PID namespace numbers it; 0 when it is not in there, or not connected.
  int pid() const;

 private:
  UniqueFd fd_;
  bool connected_ = false;
};

}  // namespace uroce
