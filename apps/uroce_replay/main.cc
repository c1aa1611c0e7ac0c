// `uroce-replay`: lets the engine take one side of a captured conversation, and compares what it sends with the
// capture.
//
//   uroce-replay CAPTURE...
//   uroce-replay EAL-ARGUMENTS -- CAPTURE...      the same through a DPDK port, net_pcap
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "common/command_line.h"
#include "common/mapped_file.h"
#include "net_pcap.h"
#include "replay/cm_replay.h"
#include "replay/replay.h"
#include "report.h"

namespace uroce::replay_app {
namespace {

using replay::Conversation;
using replay::Recording;
using replay::ReplayOutcome;
using replay::Role;
using replay::RoleResult;

constexpr int kSame = 0;
constexpr int kDifferent = 1;
constexpr int kCannot = apps::kUsageError;

struct Options {
  std::vector<std::string> captures;
  std::string as;
  std::vector<uint32_t> qps;
  std::string parameters;
  std::vector<std::string> without;
  bool all = false;
  bool tolerances = false;
  bool strict = false;
  bool quiet = false;
  ResultStyle style;
};

std::optional<replay::Tolerance> tolerance_of(const std::string& name) {
  for (const replay::ToleranceInfo& tolerance : replay::tolerances()) {
    if (tolerance.counted && name == tolerance.name) return tolerance.tolerance;
  }
  return std::nullopt;
}

void add_options(CLI::App& app, Options& options) {
  const auto known_tolerance = [](const std::string& name) {
    return tolerance_of(name) ? std::string() : "no tolerance that is counted: " + name + " (--tolerances lists them)";
  };
  app.add_option("CAPTURE", options.captures, "pcap or pcapng files");
  app.add_option("--as", options.as, "only this side of every connection")
      ->check(CLI::IsMember({"requester", "responder"}));
  app.add_option("--qp", options.qps, "only conversations of these QP numbers")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--all", options.all, "every conversation in every role that the capture allows (the default)");
  app.add_option("--parameters", options.parameters, "a file that says what the capture does not show (doc/replay.md)");
  app.add_flag("--tolerances", options.tolerances, "list in what packets may differ");
  app.add_option("--without", options.without, "tolerances that are not granted: their use is a difference")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(known_tolerance);
  app.add_flag("--strict", options.strict, "what is not replayed counts as a difference");
  app.add_flag("--verbose", options.style.verbose, "say what was learned, and which packets are taken as lost");
  app.add_flag("--quiet", options.quiet, "print nothing, only set the exit status");
  app.add_option("--differences", options.style.differences, "differences of one conversation and role to show")
      ->capture_default_str();
  app.footer(
      "EAL's arguments, if there are any, come first, then --: the packets then pass through DPDK's net_pcap.\n"
      "Exit status: 0 the same, 1 differences, 2 a capture that cannot be read, or nothing to replay.");
}

bool wanted(const Options& options, const Conversation& conversation) {
  if (options.qps.empty()) return true;
  return std::any_of(options.qps.begin(), options.qps.end(), [&](uint32_t qpn) {
    return qpn == conversation.responder_qpn || (conversation.requester_qpn && qpn == *conversation.requester_qpn);
  });
}

bool wanted(const Options& options, Role role) {
  return options.as.empty() || (options.as == "requester") == (role == Role::kRequester);
}

class Program {
 public:
  Program(const Options& options, const replay::ReplayOptions& replay_options, replay::PlayerPort& player_port)
      : options_(options), replay_options_(replay_options), player_port_(player_port) {}
  int run();

 private:
  int replay_capture(const std::string& path);
  bool replay_conversations(const Recording& recording);
  bool replay_exchanges(const Recording& recording);

  const Options& options_;
  const replay::ReplayOptions& replay_options_;
  replay::PlayerPort& player_port_;
  Totals totals_;
};

/// Returns false when there are none.
bool Program::replay_conversations(const Recording& recording) {
  bool any = false;
  for (size_t i = 0; i < recording.conversations.size(); i++) {
    if (!wanted(options_, recording.conversations[i])) continue;
    for (const Role role : {Role::kResponder, Role::kRequester}) {
      if (!wanted(options_, role)) continue;
      const RoleResult result = replay::replay(recording, i, role, replay_options_, player_port_);
      if (!options_.quiet) {
        print_result(options_.style, replay::describe(recording.conversations[i]), "packets", role, result);
      }
      add(result, totals_);
      any |= result.outcome != ReplayOutcome::kSkipped;
    }
  }
  return any;
}

/// Connection management, which has no QP of its own.
bool Program::replay_exchanges(const Recording& recording) {
  bool any = false;
  if (!options_.qps.empty()) return any;
  for (const replay::CmExchange& exchange : recording.exchanges) {
    for (const Role role : {Role::kResponder, Role::kRequester}) {
      if (!wanted(options_, role)) continue;
      const RoleResult result = replay::replay_cm(exchange, role, replay_options_);
      if (!options_.quiet) print_result(options_.style, replay::describe(exchange), "messages", role, result);
      add(result, totals_);
      any |= result.outcome != ReplayOutcome::kSkipped;
    }
  }
  return any;
}

int Program::replay_capture(const std::string& path) {
  const apps::MappedFile file(path);
  if (!file.error().empty()) {
    std::fprintf(stderr, "uroce-replay: %s: %s\n", path.c_str(), file.error().c_str());
    return kCannot;
  }
  const Recording recording = replay::read_recording(file.bytes());
  add(recording, totals_);
  if (options_.captures.size() > 1 && !options_.quiet) std::printf("%s\n", path.c_str());
  if (!options_.quiet) print_left_out(recording);
  const bool connected = replay_exchanges(recording);
  const bool any = replay_conversations(recording) || connected;
  std::fflush(stdout);
  // A capture of a connection that was refused or never used is not an error.
  const bool only_cm = recording.conversations.empty() && recording.cm_packets != 0 && recording.homeless == 0;
  const std::string error = !recording.error.empty() ? recording.error : any || only_cm ? "" : "nothing to replay";
  if (!error.empty()) std::fprintf(stderr, "uroce-replay: %s: %s\n", path.c_str(), error.c_str());
  return error.empty() ? kSame : kCannot;
}

int Program::run() {
  int status = kSame;
  for (const std::string& path : options_.captures) status = std::max(status, replay_capture(path));
  if (!options_.quiet) print_totals(totals_);
  const bool missing = options_.strict && totals_.not_replayed + totals_.homeless != 0;
  return totals_.different != 0 || missing ? std::max(status, kDifferent) : status;
}

bool read_parameters(const std::string& path, replay::Parameters& parameters) {
  if (path.empty()) return true;
  const apps::MappedFile file(path);
  std::string wrong = file.error();
  if (wrong.empty()) {
    wrong =
        replay::parse_parameters({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, parameters);
  }
  if (!wrong.empty()) std::fprintf(stderr, "uroce-replay: %s: %s\n", path.c_str(), wrong.c_str());
  return wrong.empty();
}

int run(int argc, char** argv, NetPcap* port) {
  Options options;
  CLI::App app("Plays one side of a capture against our engine and compares what it sends.", "uroce-replay");
  add_options(app, options);
  if (const auto status = apps::parse_command_line(app, argc, argv)) return *status;
  if (options.tolerances) {
    print_tolerances();
    return kSame;
  }
  // In a DPDK application the capture may be given only as what the port receives.
  if (options.captures.empty() && port != nullptr && !port->capture().empty()) options.captures = {port->capture()};
  if (!apps::any_capture(app, options.captures)) return kCannot;
  replay::ReplayOptions replay_options;
  for (const std::string& name : options.without) {
    replay_options.withheld |= replay::ToleranceUse::bit(tolerance_of(name).value());
  }
  if (!read_parameters(options.parameters, replay_options.parameters)) return kCannot;
  replay::MemoryPlayerPort memory;
  replay::PlayerPort* const player_port = port != nullptr ? static_cast<replay::PlayerPort*>(port) : &memory;
  return Program(options, replay_options, *player_port).run();
}

/// EAL's arguments come before "--", as in every DPDK application.
int run_as_dpdk_application(int argc, char** argv) {
  const Eal eal(argc, argv);
  if (eal.used() < 0) return kCannot;
  try {
    NetPcap port;
    return run(argc - eal.used(), argv + eal.used(), &port);
  } catch (const std::runtime_error& failure) {
    std::fprintf(stderr, "uroce-replay: %s\n", failure.what());
    return kCannot;
  }
}

}  // namespace
}  // namespace uroce::replay_app

int main(int argc, char** argv) {
  using namespace uroce::replay_app;
  std::signal(SIGPIPE, SIG_DFL);  // a reader that leaves ends this program, even if the parent ignored the signal
  const bool dpdk = std::any_of(argv + 1, argv + argc, [](const char* word) { return std::strcmp(word, "--") == 0; });
  return dpdk ? run_as_dpdk_application(argc, argv) : run(argc, argv, nullptr);
}
