// What the programs that have the device open say of themselves, by DPDK's telemetry.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "host/telemetry_socket.h"

namespace uroce::launcher {

using Json = nlohmann::ordered_json;

/// "?" when it is not there.
std::string text_at(const Json& dictionary, const char* key);
/// 0 when it is not there.
uint64_t number_at(const Json& dictionary, const char* key);

class TelemetryClient {
 public:
  static constexpr int kPatienceSeconds = 1;

  /// Waits so long for each answer.
  explicit TelemetryClient(const std::string& path, int patience_seconds = kPatienceSeconds);

  /// The JSON with which the command is answered, as it came; nothing when no answer came in time.
  std::optional<std::string> ask(const std::string& command);
  /// What is under the command's name in it, with printable characters only.
  std::optional<Json> value(const std::string& command);

 private:
  std::chrono::seconds patience_;
  TelemetrySocket socket_;
  bool greeted_ = false;
};

/// An endpoint of a process. Most have one; an application of DPDK's may have several.
struct Program {
  int pid = 0;
  bool answers = false;  // else it is stopped, or just ending, and the rest is empty
  bool is_only = true;   // the process has no other endpoint
  uint64_t endpoint_number = 0;
  Json endpoint;
  Json counters;
  std::vector<Json> qps;  // the first 512, as many as DPDK's telemetry names
};

enum class Ask { kSummary, kQueuePairs };

/// Asks all of them at the same time, or only process `pid`; those of a process are side by side, the oldest first. One
/// that ends meanwhile is left out. Empty, with one line
/// in `error`, when the runtime directory cannot be used.
std::vector<Program> ask_programs(Ask what, std::optional<int> pid, std::string& error);

}  // namespace uroce::launcher
