// `uroce-lint`: judges captures of RoCEv2 traffic of any implementation.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>

#include "common/command_line.h"
#include "common/mapped_file.h"
#include "report.h"

namespace uroce::lint_app {
namespace {

constexpr int kClean = 0;
constexpr int kFound = 1;
constexpr int kCannotRead = 2;

struct Options {
  std::vector<std::string> captures;
  std::vector<std::string> only;
  std::vector<std::string> ignore;
  std::string fail_on = "error";
  bool json = false;
  bool quiet = false;
  bool summary = false;
  bool packets = false;
  bool rules = false;
  bool lossy = false;
  uint32_t findings_per_rule = 1000;
};

lint::Severity severity_of(const std::string& name) {
  if (name == "note") return lint::Severity::kNote;
  return name == "warning" ? lint::Severity::kWarning : lint::Severity::kError;
}

void choose_rules(const Options& options, lint::Linter& linter) {
  for (unsigned i = 0; i < lint::kRuleCount; i++) {
    const auto rule = static_cast<lint::Rule>(i);
    const auto named = [rule](const std::string& id) { return lint::rule_of(id) == rule; };
    const bool wanted = options.only.empty() || std::any_of(options.only.begin(), options.only.end(), named);
    if (!wanted || std::any_of(options.ignore.begin(), options.ignore.end(), named)) linter.ignore(rule);
  }
}

void print(const Options& options, const Report& report) {
  if (options.quiet || options.packets) return;
  if (options.json) {
    print_json(report);
    return;
  }
  print_findings(report);
  if (options.summary) print_summary(report);
  print_totals(report);
}

/// Reads the whole file once for the number of lost frames, which stands at its end and is needed at the beginning.
uint64_t lost_frames(std::span<const uint8_t> bytes) {
  pcap::CaptureReader reader(bytes);
  if (reader.kind() != pcap::FileKind::kPcapng) return 0;
  for (pcap::Frame frame; reader.next(frame);) {
  }
  return reader.lost_frames();
}

int judge(const Options& options, const std::string& path) {
  const apps::MappedFile file(path);
  if (!file.error().empty()) {
    std::fprintf(stderr, "uroce-lint: %s: %s\n", path.c_str(), file.error().c_str());
    return kCannotRead;
  }
  lint::LintOptions lint_options;
  lint_options.findings_per_rule = options.findings_per_rule;
  lint_options.lossy_capture = options.lossy || lost_frames(file.bytes()) != 0;
  lint::Linter linter(lint_options);
  choose_rules(options, linter);
  pcap::CaptureReader reader(file.bytes());
  for (pcap::Frame frame; reader.next(frame);) {
    linter.on_frame(frame);
    if (options.packets && linter.newest_packet() != nullptr) print_packet(*linter.newest_packet());
  }
  linter.finish();
  const bool nothing = reader.error() && linter.totals().frames == 0;
  if (!nothing || options.json) print(options, {path, linter, reader.error(), reader.lost_frames()});
  if (reader.error()) {
    std::fflush(stdout);
    std::fprintf(stderr, "uroce-lint: %s: byte %llu: %s\n", path.c_str(),
                 static_cast<unsigned long long>(reader.error()->offset), reader.error()->text.c_str());
    return kCannotRead;
  }
  for (auto severity = severity_of(options.fail_on);; severity = lint::Severity::kError) {
    if (linter.findings().count(severity) != 0) return kFound;
    if (severity == lint::Severity::kNote && linter.findings().count(lint::Severity::kWarning) != 0) return kFound;
    if (severity == lint::Severity::kError) return kClean;
  }
}

void add_options(CLI::App& app, Options& options) {
  const auto known_rule = [](const std::string& id) {
    return lint::rule_of(id) ? std::string() : "no such rule: " + id + " (uroce-lint --rules lists them)";
  };
  app.add_option("CAPTURE", options.captures, "pcap or pcapng files; - is standard input");
  app.add_flag("--json", options.json, "one JSON object a capture, each on a line of its own");
  app.add_flag("--summary", options.summary, "statistics of every connection");
  app.add_flag("--quiet", options.quiet, "print nothing, only set the exit status");
  app.add_option("--only", options.only, "only these rules")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(known_rule);
  app.add_option("--ignore", options.ignore, "not these rules")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(known_rule);
  app.add_option("--fail-on", options.fail_on, "least severity that makes the exit status 1")
      ->check(CLI::IsMember({"error", "warning", "note"}))
      ->capture_default_str();
  app.add_option("--findings", options.findings_per_rule, "findings of one rule to show; the others are counted")
      ->capture_default_str();
  app.add_flag("--lossy", options.lossy, "the capture is known to lack frames: what that explains becomes a note");
  app.add_flag("--packets", options.packets, "print what was decoded, a JSON object a packet, instead of findings");
  app.add_flag("--rules", options.rules, "list the rules");
  app.footer("Exit status: 0 clean, 1 findings, 2 a capture that cannot be read to its end.");
}

}  // namespace

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Judges captures of RoCEv2: headers, order, acknowledgements, retransmission, READ, atomics, CNP, CM.",
               "uroce-lint");
  add_options(app, options);
  if (const auto status = apps::parse_command_line(app, argc, argv)) return *status;
  if (options.rules) {
    print_rules();
    return kClean;
  }
  if (!apps::any_capture(app, options.captures)) return apps::kUsageError;
  int status = kClean;
  for (const std::string& path : options.captures) status = std::max(status, judge(options, path));
  return status;
}

}  // namespace uroce::lint_app

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // a reader that leaves ends this program, even if the parent ignored the signal
  return uroce::lint_app::run(argc, argv);
}
