#include "programs.h"

#include <algorithm>
#include <future>
#include <iterator>

#include "base/printable.h"
#include "host/endpoint_note.h"

namespace uroce::launcher {
namespace {

/// How many programs are asked at the same time.
constexpr size_t kAtOnce = 64;

/// A program may answer anything.
Json printable_json(const Json& from) {
  if (from.is_string()) return printable(from.get<std::string>());
  if (from.is_array()) {
    Json array = Json::array();
    for (const Json& each : from) array.push_back(printable_json(each));
    return array;
  }
  if (!from.is_object()) return from;
  Json object = Json::object();
  for (const auto& [key, value] : from.items()) object[printable(key)] = printable_json(value);
  return object;
}

/// False when there is no answer.
bool ask_endpoint(TelemetryClient& client, Ask what, Program& program) {
  const std::string which = "," + std::to_string(program.endpoint_number);
  const auto endpoint = client.value("/uroce/endpoint" + which);
  const auto counters = client.value("/uroce/counters" + which);
  const auto numbers = what == Ask::kQueuePairs ? client.value("/uroce/qps" + which) : Json::array();
  if (!endpoint || !counters || !numbers || !endpoint->is_object() || !counters->is_object()) return false;
  program.answers = true;
  program.endpoint = *endpoint;
  program.counters = *counters;
  for (const Json& number : *numbers) {
    const auto qp = client.value("/uroce/qp," + number.dump() + which);
    if (qp && qp->is_object()) program.qps.push_back(*qp);  // else it is gone
  }
  return true;
}

std::vector<Program> ask_process(const RunningEndpoint& running, Ask what) {
  Program silent;
  silent.pid = running.pid;
  TelemetryClient client(running.telemetry_socket);
  const auto numbers = client.value("/uroce/endpoints");
  std::vector<Program> programs;
  if (!numbers || !numbers->is_array()) return {silent};
  for (const Json& number : *numbers) {
    Program program = silent;
    program.is_only = numbers->size() == 1;
    program.endpoint_number = number.is_number_unsigned() ? number.get<uint64_t>() : 0;
    if (ask_endpoint(client, what, program)) programs.push_back(std::move(program));  // else it is gone
  }
  return programs.empty() ? std::vector{silent} : programs;
}

}  // namespace

std::string text_at(const Json& dictionary, const char* key) {
  const auto found = dictionary.is_object() ? dictionary.find(key) : dictionary.end();
  if (!dictionary.is_object() || found == dictionary.end()) return "?";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

uint64_t number_at(const Json& dictionary, const char* key) {
  const auto found = dictionary.is_object() ? dictionary.find(key) : dictionary.end();
  return dictionary.is_object() && found != dictionary.end() && found->is_number_unsigned() ? found->get<uint64_t>()
                                                                                            : 0;
}

TelemetryClient::TelemetryClient(const std::string& path, int patience_seconds)
    : patience_(patience_seconds), socket_(path, patience_) {
  greeted_ = socket_.greet(patience_);
}

std::optional<std::string> TelemetryClient::ask(const std::string& command) {
  return greeted_ ? socket_.ask(command, patience_) : std::nullopt;
}

std::optional<Json> TelemetryClient::value(const std::string& command) {
  const auto text = ask(command);
  if (!text) return std::nullopt;
  Json answer = Json::parse(*text, nullptr, false);
  // The name is the command without its parameters.
  const auto found = answer.is_object() ? answer.find(command.substr(0, command.find(','))) : answer.end();
  if (!answer.is_object() || found == answer.end() || found->is_null()) return std::nullopt;
  return printable_json(*found);
}

std::vector<Program> ask_programs(Ask what, std::optional<int> pid, std::string& error) {
  std::vector<RunningEndpoint> running = running_endpoints(error);
  if (pid) std::erase_if(running, [&](const RunningEndpoint& r) { return r.pid != *pid; });
  std::vector<Program> programs;
  for (size_t first = 0; first < running.size(); first += kAtOnce) {
    std::vector<std::future<std::vector<Program>>> answers;
    for (size_t i = first; i < std::min(first + kAtOnce, running.size()); i++)
      answers.push_back(std::async(std::launch::async, ask_process, running[i], what));
    for (auto& answer : answers) std::ranges::move(answer.get(), std::back_inserter(programs));
  }
  if (std::all_of(programs.begin(), programs.end(), [](const Program& p) { return p.answers; })) return programs;
  const std::vector<RunningEndpoint> still = running_endpoints(error);
  std::erase_if(programs, [&](const Program& p) {
    return !p.answers && std::none_of(still.begin(), still.end(), [&](const auto& r) { return r.pid == p.pid; });
  });
  return programs;
}

}  // namespace uroce::launcher
