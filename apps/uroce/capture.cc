// `uroce capture`: everything that the programs which have the device open send and receive, as one file.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>

#include "capture_session.h"
#include "commands.h"
#include "host/endpoint_note.h"
#include "programs.h"
#include "quit_signals.h"

namespace uroce::launcher {
namespace {

constexpr auto kLookForPrograms = std::chrono::milliseconds(500);

/// Tells a program to join. "" when it did, else why not.
std::string ask_to_join(const RunningEndpoint& program, const std::string& capture) {
  TelemetryClient client(program.telemetry_socket);
  const auto answer = client.value("/uroce/capture," + capture);
  if (!answer || !answer->is_object()) return "it does not answer, or has a uroce that does not know captures";
  const auto error = answer->find("error");
  return error != answer->end() && error->is_string() ? error->get<std::string>() : "";
}

/// Asks all at the same time, and says of whom nothing will be seen. Returns how many joined.
size_t ask_all_to_join(const std::vector<RunningEndpoint>& programs, const std::string& capture) {
  std::vector<std::future<std::string>> answers;
  for (const RunningEndpoint& program : programs)
    answers.push_back(std::async(std::launch::async, ask_to_join, std::cref(program), std::cref(capture)));
  size_t joined = 0;
  for (size_t i = 0; i < programs.size(); i++) {
    const std::string why = answers[i].get();
    joined += why.empty() ? 1 : 0;
    if (!why.empty()) std::fprintf(stderr, "uroce: process %d cannot be captured: %s\n", programs[i].pid, why.c_str());
  }
  return joined;
}

/// Asks everybody once, and those who come. Programs that open the device while the capture is there join by
/// themselves; this finds those that did so in the moment before.
void keep_asking(const std::stop_token& stop, const std::string& capture) {
  std::mutex mutex;
  std::condition_variable_any time_is_over;
  std::set<std::string> asked;
  while (!stop.stop_requested()) {
    std::string error;
    std::vector<RunningEndpoint> fresh = running_endpoints(error);
    std::erase_if(fresh,
                  [&](const RunningEndpoint& program) { return !asked.insert(program.telemetry_socket).second; });
    ask_all_to_join(fresh, capture);
    std::unique_lock lock(mutex);
    time_is_over.wait_for(lock, stop, kLookForPrograms, [] { return false; });
  }
}

/// Returns false, after one line, when one of them is not there or none can be captured.
bool ask_chosen(const std::vector<int>& pids, const std::string& capture) {
  std::string error;
  std::vector<RunningEndpoint> running = running_endpoints(error);
  for (const int pid : pids) {
    if (std::any_of(running.begin(), running.end(), [&](const auto& r) { return r.pid == pid; })) continue;
    fail("process " + std::to_string(pid) + " has no open uroce device");
    return false;
  }
  std::erase_if(running, [&](const auto& r) { return std::count(pids.begin(), pids.end(), r.pid) == 0; });
  return ask_all_to_join(running, capture) != 0;
}

int capture(const CaptureOptions& options) {
  take_quit_signals();
  CaptureSession session(options);
  std::string error;
  if (!session.open(error)) return fail(error);
  std::jthread asker;
  if (options.pids.empty()) {
    const QuitSignalsBlocked blocked;
    asker = std::jthread([&](const std::stop_token& stop) { keep_asking(stop, session.name()); });
  } else if (!ask_chosen(options.pids, session.name())) {
    return kUsageError;
  }
  const bool good = session.run(quit_asked(), error);
  std::fprintf(stderr, "uroce: %s\n", session.summary().c_str());
  if (good) return 0;
  fail(error);
  return 1;
}

}  // namespace

void add_capture(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CaptureOptions>();
  CLI::App* command = app.add_subcommand("capture", "what they send and receive, as a pcapng file, until Ctrl-C");
  command->add_option("-w", options->file, "the file; - for stdout: uroce capture -w - | tshark -r -")->required();
  command->add_option("PID", options->pids, "only these processes; the capture ends with them")
      ->check(CLI::PositiveNumber);
  command->add_option("--seconds", options->seconds, "end after so long")->check(CLI::PositiveNumber);
  command->add_option("--max", options->max_bytes, "end before the file is longer: 100M, 2G")
      ->transform(CLI::AsSizeValue(false));
  command->add_option("--snap", options->keep_bytes, "only the first bytes of each packet")
      ->check(CLI::Range(128, 65535));
  command->add_flag("--once", options->once, "each packet only as it is sent, not once more as it is received");
  command->callback([options, &exit_code] { exit_code = capture(*options); });
}

}  // namespace uroce::launcher
