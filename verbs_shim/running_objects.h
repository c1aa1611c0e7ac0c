// The objects and counters of the programs that run: asks each over its telemetry.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/telemetry_socket.h"
#include "host_objects.h"
#include "uroce/address.h"

namespace uroce::verbs {

/// For one request: programs are looked up with the first question, and all questions together take kPatience at most.
/// All are asked before the first answer is waited for, so that those that take their time take it together. Who does
/// not answer is left out, and the log says so once.
class RunningObjects final : public HostObjects {
 public:
  static constexpr std::chrono::milliseconds kPatience{3000};

  explicit RunningObjects(const MacAddress& device) : device_(device) {}

  uint64_t count(ObjectKind kind) override;
  std::vector<ProgramObjects> list(ObjectKind kind, size_t row_words) override;
  /// Those of this process are read directly: it has them also where its telemetry cannot be reached.
  Counters counters() override;

 private:
  struct Program {
    TelemetrySocket socket;
    bool answers = true;
    bool tells_objects = true;  // false: a thread of it stayed in the engine when it was asked
    bool asked = false;
  };
  /// False: the answer is not what was asked for.
  using Read = std::function<bool(Program&, const std::string&)>;
  using Numbers = std::vector<uint64_t>;  // at least one: how many objects there are
  using ReadNumbers = std::function<bool(Program&, const Numbers&)>;

  void find();
  std::chrono::milliseconds patience(std::chrono::milliseconds most) const;
  std::string question(ObjectKind kind, uint64_t skip) const;
  void ask_for_objects(const std::string& question, const ReadNumbers& read);
  void send_to(Program& program, const std::string& question);
  void read_answers(const Read& read);
  std::optional<Numbers> more(Program& program, const std::string& question);
  void leave_out(Program& program);
  void warn_once(const char* text);

  const MacAddress device_;
  bool found_ = false;
  bool said_ = false;
  std::chrono::steady_clock::time_point end_;
  std::vector<Program> programs_;
};

/// The numbers of the array in an answer of telemetry; nothing when it is none.
std::optional<std::vector<uint64_t>> numbers_in(const std::string& answer);
/// Adds the counters of the dictionary in an answer of telemetry, by their names: a program of another version has
/// others, and those that only it or only this one has are passed over. False when it is none.
bool add_counters_in(const std::string& answer, Counters& sum);

}  // namespace uroce::verbs
