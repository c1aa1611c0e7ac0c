// The objects of the programs that run: asks each over its telemetry.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/telemetry_socket.h"
#include "host_objects.h"
#include "uroce/address.h"

namespace uroce::verbs {

/// For one request: programs are looked up with the first question, and all questions together take kPatience at most.
/// Who does not answer is left out, and the log says so once.
class RunningObjects final : public HostObjects {
 public:
  static constexpr std::chrono::milliseconds kPatience{3000};

  explicit RunningObjects(const MacAddress& device) : device_(device) {}

  uint64_t count(ObjectKind kind) override;
  std::vector<ProgramObjects> list(ObjectKind kind, size_t row_words) override;

 private:
  struct Program {
    TelemetrySocket socket;
    bool answers = true;
  };

  void find();
  std::chrono::milliseconds patience(std::chrono::milliseconds most) const;
  std::optional<std::vector<uint64_t>> ask(Program& program, ObjectKind kind, uint64_t skip);
  void leave_out(Program& program);

  const MacAddress device_;
  bool found_ = false;
  bool said_ = false;
  std::chrono::steady_clock::time_point end_;
  std::vector<Program> programs_;
};

/// The numbers of the array in an answer of telemetry; nothing when it is none.
std::optional<std::vector<uint64_t>> numbers_in(const std::string& answer);

}  // namespace uroce::verbs
