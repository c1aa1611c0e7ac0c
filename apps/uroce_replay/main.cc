// `uroce-replay`: plays one side of a capture against our engine and compares what is sent.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "replay/freedoms.h"
#include "replay/replay.h"

namespace uroce::replay_app {
namespace {

using replay::Bytes;
using replay::Conversation;
using replay::Outcome;
using replay::Recording;
using replay::Role;
using replay::RoleResult;
using Ull = unsigned long long;

constexpr int kSame = 0;
constexpr int kDifferent = 1;
constexpr int kCannot = 2;

struct Options {
  std::vector<std::string> captures;
  std::string as;
  std::vector<uint32_t> qps;
  std::string parameters;
  bool all = false;
  bool freedoms = false;
  bool verbose = false;
  bool quiet = false;
  uint32_t differences = 10;
};

void print_freedoms() {
  for (const replay::FreedomInfo& freedom : replay::freedoms()) {
    std::printf("%-16s %-10s %s %s\n", freedom.name, freedom.role, freedom.counted ? "counted" : "always ",
                freedom.text);
  }
}

void print_difference(const replay::Difference& difference) {
  std::string where = difference.frame != 0 ? "frame " + std::to_string(difference.frame) : "";
  if (difference.because != 0)
    where += (where.empty() ? "after frame " : ", after frame ") + std::to_string(difference.because);
  std::printf("  %s: %s\n", where.c_str(), difference.title.c_str());
  size_t width = 8;
  for (const replay::Row& row : difference.rows) width = std::max(width, row.recorded.size());
  std::printf("    %-15s %-*s  ours\n", "", static_cast<int>(width), "recorded");
  for (const replay::Row& row : difference.rows) {
    std::printf("  %s %-15s %-*s  %s\n", row.same ? " " : "*", row.field.c_str(), static_cast<int>(width),
                row.recorded.c_str(), row.ours.c_str());
    if (!row.same && *row.rule != '\0') std::printf("      rule: %s\n", row.rule);
  }
  for (const std::string& reason : difference.reasons) std::printf("    our engine says: %s\n", reason.c_str());
}

void print_result(const Options& options, const Conversation& conversation, Role role, const RoleResult& result) {
  if (options.quiet) return;
  const char* const name = role == Role::kRequester ? "requester" : "responder";
  std::printf("%s as %s: ", replay::describe(conversation).c_str(), name);
  if (result.outcome == Outcome::kSkipped) {
    std::printf("not replayed: %s\n", result.why.c_str());
    return;
  }
  std::printf("%s, %llu packets compared, %llu handed in", result.outcome == Outcome::kSame ? "same" : "DIFFERENT",
              static_cast<Ull>(result.compared), static_cast<Ull>(result.injected));
  if (!result.differences.empty()) std::printf(", %zu differences", result.differences.size());
  const char* before = "; freedoms: ";
  for (const replay::FreedomInfo& freedom : replay::freedoms()) {
    const uint64_t used = result.used[static_cast<unsigned>(freedom.freedom)];
    if (used == 0) continue;
    std::printf("%s%s %llu", before, freedom.name, static_cast<Ull>(used));
    before = ", ";
  }
  std::printf("\n");
  if (options.verbose) {
    for (const std::string& learned : result.learned) std::printf("    learned: %s\n", learned.c_str());
    for (const uint64_t frame : result.lost_frames)
      std::printf("    taken as lost: frame %llu\n", static_cast<Ull>(frame));
  }
  uint32_t shown = 0;
  for (const replay::Difference& difference : result.differences) {
    if (shown++ == options.differences) {
      std::printf("  ... and %zu more\n", result.differences.size() - options.differences);
      break;
    }
    print_difference(difference);
  }
}

bool wanted(const Options& options, const Conversation& conversation) {
  if (options.qps.empty()) return true;
  return std::any_of(options.qps.begin(), options.qps.end(), [&](uint32_t qpn) {
    return qpn == conversation.responder_qpn || (conversation.requester_qpn && qpn == *conversation.requester_qpn);
  });
}

bool read_file(const std::string& path, Bytes& bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  bytes.assign(std::istreambuf_iterator<char>(file), {});
  return !file.bad();
}

void print_left_out(const Options& options, const Recording& recording) {
  if (options.quiet) return;
  if (recording.cm_packets != 0) {
    std::printf("%llu connection management MADs to QP 1: decoded and skipped\n",
                static_cast<Ull>(recording.cm_packets));
  }
  if (recording.cnps != 0) std::printf("%llu CNPs: skipped\n", static_cast<Ull>(recording.cnps));
  if (recording.homeless != 0) {
    std::printf("%llu packets of no conversation: skipped\n", static_cast<Ull>(recording.homeless));
  }
}

int replay_capture(const Options& options, const std::string& path, const replay::Parameters& parameters) {
  Bytes bytes;
  if (!read_file(path, bytes)) {
    std::fprintf(stderr, "uroce-replay: %s: cannot be read\n", path.c_str());
    return kCannot;
  }
  const Recording recording = replay::read_recording(bytes);
  if (options.captures.size() > 1 && !options.quiet) std::printf("%s\n", path.c_str());
  print_left_out(options, recording);
  int status = kSame;
  bool any = false;
  for (size_t i = 0; i < recording.conversations.size(); i++) {
    if (!wanted(options, recording.conversations[i])) continue;
    for (const Role role : {Role::kResponder, Role::kRequester}) {
      if (!options.as.empty() && (options.as == "requester") != (role == Role::kRequester)) continue;
      const RoleResult result = replay::replay(recording, i, role, parameters);
      print_result(options, recording.conversations[i], role, result);
      any |= result.outcome != Outcome::kSkipped;
      if (result.outcome == Outcome::kDifferent) status = kDifferent;
    }
  }
  std::fflush(stdout);
  if (!recording.error.empty()) {
    std::fprintf(stderr, "uroce-replay: %s: %s\n", path.c_str(), recording.error.c_str());
    return kCannot;
  }
  if (!any) {
    std::fprintf(stderr, "uroce-replay: %s: nothing to replay\n", path.c_str());
    return kCannot;
  }
  return status;
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("CAPTURE", options.captures, "pcap or pcapng files");
  app.add_option("--as", options.as, "only this side of every connection")
      ->check(CLI::IsMember({"requester", "responder"}));
  app.add_option("--qp", options.qps, "only conversations of these QP numbers")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--all", options.all, "every conversation in every role that the capture allows (the default)");
  app.add_option("--parameters", options.parameters, "a file that says what the capture does not show (doc/replay.md)");
  app.add_flag("--freedoms", options.freedoms, "list in what packets may differ");
  app.add_flag("--verbose", options.verbose, "say what was learned, and which packets are taken as lost");
  app.add_flag("--quiet", options.quiet, "print nothing, only set the exit status");
  app.add_option("--differences", options.differences, "differences of one conversation and role to show")
      ->capture_default_str();
  app.footer("Exit status: 0 the same, 1 differences, 2 a capture that cannot be read, or nothing to replay.");
}

}  // namespace

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Plays one side of a capture against our engine and compares what it sends.", "uroce-replay");
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "uroce-replay: %s (uroce-replay --help)\n", error.what());
    return kCannot;
  }
  if (options.freedoms) {
    print_freedoms();
    return kSame;
  }
  if (options.captures.empty()) {
    std::fprintf(stderr, "uroce-replay: which capture? (uroce-replay --help)\n");
    return kCannot;
  }
  replay::Parameters parameters;
  if (!options.parameters.empty()) {
    Bytes text;
    std::string wrong = "cannot be read";
    if (read_file(options.parameters, text)) {
      wrong = replay::parse_parameters({reinterpret_cast<const char*>(text.data()), text.size()}, parameters);
    }
    if (!wrong.empty()) {
      std::fprintf(stderr, "uroce-replay: %s: %s\n", options.parameters.c_str(), wrong.c_str());
      return kCannot;
    }
  }
  int status = kSame;
  for (const std::string& path : options.captures) status = std::max(status, replay_capture(options, path, parameters));
  return status;
}

}  // namespace uroce::replay_app

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // whoever reads may leave; a parent may have changed this
  return uroce::replay_app::run(argc, argv);
}
