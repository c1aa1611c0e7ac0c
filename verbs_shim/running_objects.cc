#include "running_objects.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "dpdk/endpoint_registry.h"
#include "dpdk/log.h"
#include "host/endpoint_note.h"
#include "transport/counters.h"

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

bool add_counters_in(const std::string& answer, Counters& sum) {
  const size_t dictionary = answer.find('{', 1);
  if (dictionary == std::string::npos) return false;
  size_t at = dictionary;  // mostly, they come in this order
  for_each_counter(sum, [&](const char* name, uint64_t& value) {
    const std::string key = '"' + std::string(name) + "\":";
    size_t found = answer.find(key, at);
    if (found == std::string::npos) found = answer.find(key, dictionary);
    if (found == std::string::npos) return;
    at = found + key.size();
    uint64_t counted = 0;
    std::from_chars(answer.data() + at, answer.data() + answer.size(), counted);
    value += counted;
  });
  return true;
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
  warn_once("not all programs that use the device answer: what they have there, and have counted, is left out");
}

void RunningObjects::warn_once(const char* text) {
  if (!std::exchange(said_, true)) log_message(LogLevel::kWarning, "%s", text);
}

std::string RunningObjects::question(ObjectKind kind, uint64_t skip) const {
  return std::string(kObjectsCommand) + "," + std::to_string(number_of(device_)) + "," +
         std::to_string(static_cast<int>(kind)) + "," + std::to_string(skip);
}

void RunningObjects::send_to(Program& program, const std::string& question) {
  program.asked = program.answers && program.socket.send_question(question);
  if (program.answers && !program.asked) leave_out(program);
}

/// Also when the time is over: an answer that has come already is read.
void RunningObjects::read_answers(const Read& read) {
  const auto end = std::min(end_, steady_clock::now() + kAnswer);
  for (Program& program : programs_) {
    if (!std::exchange(program.asked, false)) continue;
    const auto left = std::chrono::duration_cast<Patience>(end - steady_clock::now());
    const auto answer = program.socket.receive_answer(std::max(left, Patience{0}));
    if (!answer || !read(program, *answer)) leave_out(program);
  }
}

void RunningObjects::ask_for_objects(const std::string& question, const ReadNumbers& read) {
  find();
  for (Program& program : programs_) {
    if (program.tells_objects) send_to(program, question);
  }
  read_answers([&](Program& program, const std::string& answer) {
    const auto numbers = numbers_in(answer);
    if (numbers) return read(program, *numbers);
    program.tells_objects = false;
    warn_once("not all programs that use the device can tell what they have there: a thread stays in the engine");
    return true;
  });
}

uint64_t RunningObjects::count(ObjectKind kind) {
  uint64_t count = 0;
  ask_for_objects(question(kind, std::numeric_limits<uint32_t>::max()), [&](Program&, const Numbers& numbers) {
    count += numbers.front();
    return true;
  });
  return count;
}

/// Begins with the first rows of every program; then come the others, where it has more.
std::vector<ProgramObjects> RunningObjects::list(ObjectKind kind, size_t row_words) {
  std::vector<ProgramObjects> all;
  std::vector<Program*> programs;
  size_t words = 0;
  const auto add = [&](ProgramObjects& objects, const Numbers& numbers) {
    if ((numbers.size() - 1) % row_words != 0) return false;
    objects.count = numbers.front();
    objects.words.insert(objects.words.end(), numbers.begin() + 1, numbers.end());
    words += numbers.size() - 1;
    return true;
  };
  ask_for_objects(question(kind, 0), [&](Program& program, const Numbers& numbers) {
    ProgramObjects objects;
    if (!add(objects, numbers)) return false;
    if (objects.words.empty()) return true;
    objects.pid = static_cast<uint32_t>(std::max(program.socket.pid(), 0));
    all.push_back(std::move(objects));
    programs.push_back(&program);
    return true;
  });
  for (size_t i = 0; i < all.size(); i++) {
    ProgramObjects& objects = all[i];
    while (objects.words.size() / row_words < objects.count && words < kWordsMax) {
      const auto numbers = more(*programs[i], question(kind, objects.words.size() / row_words));
      if (!numbers || numbers->size() == 1 || !add(objects, *numbers)) break;
    }
  }
  return all;
}

std::optional<RunningObjects::Numbers> RunningObjects::more(Program& program, const std::string& question) {
  const auto answer = program.socket.ask(question, patience(kAnswer));
  if (!answer) leave_out(program);
  return answer ? numbers_in(*answer) : std::nullopt;
}

Counters RunningObjects::counters() {
  find();
  const std::string question = std::string(kDeviceCountersCommand) + "," + std::to_string(number_of(device_));
  for (Program& program : programs_) {
    if (program.socket.pid() != getpid()) send_to(program, question);
  }
  Counters sum = EndpointRegistry::get().counted_on(number_of(device_));
  read_answers([&](Program&, const std::string& answer) { return add_counters_in(answer, sum); });
  return sum;
}

}  // namespace uroce::verbs
