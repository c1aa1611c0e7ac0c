#include "running_objects.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "dpdk/log.h"
#include "host/endpoint_note.h"

namespace uroce::verbs {

namespace {

using Patience = std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kProgramsMax = 1024;
constexpr Patience kGreeting{500};  // of all together
constexpr Patience kAnswer{500};
/// Of all programs together: 8 MB.
constexpr size_t kWordsMax = size_t{1} << 20;

}  // namespace

std::optional<std::vector<uint64_t>> numbers_in(const std::string& answer) {
  const size_t begin = answer.find('[');
  if (begin == std::string::npos) return std::nullopt;
  std::vector<uint64_t> numbers;
  const char* at = answer.data() + begin + 1;
  const char* const end = answer.data() + answer.size();
  while (at != end && numbers.size() < kObjectNumbersMax) {
    uint64_t number = 0;
    const auto [rest, code] = std::from_chars(at, end, number);
    if (code != std::errc() || rest == end) return std::nullopt;
    numbers.push_back(number);
    if (*rest == ']') return numbers;
    if (*rest != ',') return std::nullopt;
    at = rest + 1;
  }
  return std::nullopt;
}

Patience RunningObjects::patience(Patience most) const {
  const auto left = std::chrono::duration_cast<Patience>(end_ - steady_clock::now());
  return std::clamp(left, Patience{0}, most);
}

/// All are connected before the first is waited for, so that those that are stopped cost their time once.
void RunningObjects::find() {
  if (found_) return;
  found_ = true;
  end_ = steady_clock::now() + kPatience;
  std::string error;
  std::vector<RunningEndpoint> running = running_endpoints(error);
  if (running.size() > kProgramsMax) running.resize(kProgramsMax);
  programs_.reserve(running.size());
  for (const RunningEndpoint& each : running)
    programs_.push_back({TelemetrySocket(each.telemetry_socket, Patience{1})});
  const auto greeted_by = std::min(end_, steady_clock::now() + kGreeting);
  for (Program& program : programs_) {
    const auto left = std::chrono::duration_cast<Patience>(greeted_by - steady_clock::now());
    if (!program.socket.greet(std::max(left, Patience{0}))) leave_out(program);
  }
}

void RunningObjects::leave_out(Program& program) {
  program.answers = false;
  if (said_) return;
  said_ = true;
  log_message(LogLevel::kWarning,
              "not all programs that use the device answer: their objects are not among the others");
}

std::optional<std::vector<uint64_t>> RunningObjects::ask(Program& program, ObjectKind kind, uint64_t skip) {
  const std::string command = std::string(kObjectsCommand) + "," + std::to_string(number_of(device_)) + "," +
                              std::to_string(static_cast<int>(kind)) + "," + std::to_string(skip);
  std::optional<std::vector<uint64_t>> numbers;
  if (program.answers) {
    if (const auto answer = program.socket.ask(command, patience(kAnswer)); answer) numbers = numbers_in(*answer);
    if (!numbers) leave_out(program);
  }
  return numbers && !numbers->empty() ? numbers : std::nullopt;
}

uint64_t RunningObjects::count(ObjectKind kind) {
  find();
  uint64_t count = 0;
  for (Program& program : programs_) {
    if (const auto numbers = ask(program, kind, std::numeric_limits<uint32_t>::max()); numbers)
      count += numbers->front();
  }
  return count;
}

std::vector<ProgramObjects> RunningObjects::list(ObjectKind kind, size_t row_words) {
  find();
  std::vector<ProgramObjects> all;
  size_t words = 0;
  for (Program& program : programs_) {
    ProgramObjects objects;
    for (uint64_t rows = 0; words < kWordsMax;) {
      const auto numbers = ask(program, kind, rows);
      if (!numbers || (numbers->size() - 1) % row_words != 0) break;
      objects.count = numbers->front();
      objects.words.insert(objects.words.end(), numbers->begin() + 1, numbers->end());
      words += numbers->size() - 1;
      rows += (numbers->size() - 1) / row_words;
      if (numbers->size() == 1 || rows >= objects.count) break;
    }
    if (objects.words.empty()) continue;
    objects.pid = static_cast<uint32_t>(std::max(program.socket.pid(), 0));
    all.push_back(std::move(objects));
  }
  return all;
}

}  // namespace uroce::verbs
