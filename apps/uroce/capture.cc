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
#include <utility>

#include "capture_session.h"
#include "commands.h"
#include "host/endpoint_note.h"
#include "programs.h"
#include "quit_signals.h"

namespace uroce::launcher {
namespace {

/// A program makes 16 MB ready before it answers. A program that was chosen is asked once, any other again and again.
constexpr int kChosenPatienceSeconds = 5;
constexpr auto kLookForPrograms = std::chrono::milliseconds(500);

/// Tells a program to join. "" when it did, else why not.
std::string ask_to_join(const RunningEndpoint& program, const std::string& capture, int patience_seconds) {
  TelemetryClient client(program.telemetry_socket, patience_seconds);
  const auto answer = client.value("/uroce/capture," + capture);
  if (!answer || !answer->is_object()) return "it does not answer, or has a uroce that does not know captures";
  const auto error = answer->find("error");
  return error != answer->end() && error->is_string() ? error->get<std::string>() : "";
}

/// Asks programs to join one capture, and says once for each that cannot join why.
class Asker {
 public:
  explicit Asker(std::string capture) : capture_(std::move(capture)) {}

  /// Asks all at the same time, but for those that joined before. Returns how many join now.
  size_t ask(std::vector<RunningEndpoint> programs, int patience_seconds) {
    std::erase_if(programs, [&](const RunningEndpoint& p) { return joined_.count(p.telemetry_socket) != 0; });
    std::vector<std::future<std::string>> answers;
    for (const RunningEndpoint& program : programs)
      answers.push_back(
          std::async(std::launch::async, ask_to_join, std::cref(program), std::cref(capture_), patience_seconds));
    size_t joined = 0;
    for (size_t i = 0; i < programs.size(); i++) {
      const std::string why = answers[i].get();
      if (why.empty()) {
        joined++;
        joined_.insert(programs[i].telemetry_socket);
      } else if (complained_.insert(programs[i].telemetry_socket).second) {
        std::fprintf(stderr, "uroce: process %d cannot be captured: %s\n", programs[i].pid, why.c_str());
      }
    }
    return joined;
  }

  /// Asks all programs again and again, until `stop`: one that cannot join now may be able to later. Programs that open
  /// the device while the capture is there join by themselves.
  void keep_asking(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any time_is_over;
    while (!stop.stop_requested()) {
      std::string error;
      ask(running_endpoints(error), TelemetryClient::kPatienceSeconds);
      std::unique_lock lock(mutex);
      time_is_over.wait_for(lock, stop, kLookForPrograms, [] { return false; });
    }
  }

 private:
  const std::string capture_;
  std::set<std::string> joined_;  // telemetry sockets
  std::set<std::string> complained_;
};

/// The programs with these numbers. Empty, with one line in `error`, when one of them is not there.
std::vector<RunningEndpoint> find_chosen(const std::vector<int>& pids, std::string& error) {
  std::vector<RunningEndpoint> running = running_endpoints(error);
  for (const int pid : pids) {
    if (std::any_of(running.begin(), running.end(), [&](const auto& r) { return r.pid == pid; })) continue;
    if (error.empty()) error = "process " + std::to_string(pid) + " has no open uroce device";
    return {};
  }
  std::erase_if(running, [&](const auto& r) { return std::count(pids.begin(), pids.end(), r.pid) == 0; });
  return running;
}

int capture(const CaptureOptions& options) {
  take_quit_signals();
  std::string error;
  const std::vector<RunningEndpoint> chosen = find_chosen(options.pids, error);
  if (!error.empty()) return fail(error);
  CaptureSession session(options);
  if (!session.open(error)) return fail(error);
  Asker asker(session.name());
  std::jthread asking;
  if (options.pids.empty()) {
    const QuitSignalsBlocked blocked;
    asking = std::jthread([&](const std::stop_token& stop) { asker.keep_asking(stop); });
  } else if (asker.ask(chosen, kChosenPatienceSeconds) == 0) {
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
