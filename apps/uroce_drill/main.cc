// uroce-drill: runs packet scripts against the engine. doc/scripts.md describes the language.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/command_line.h"
#include "pcap/pcap_writer.h"
#include "script/runner.h"

namespace uroce::script {
namespace {

constexpr int kFailed = 1;
constexpr int kUnusable = 2;

struct Options {
  bool verbose = false;
  bool quiet = false;
  std::string pcap;
  std::vector<std::string> files;
};

/// Each script begins a minute after the one before it.
bool write_pcap(const std::string& path, const std::vector<std::vector<TimelineFrame>>& scripts) {
  pcap::PcapWriter captured;
  Instant begun{0};
  for (const auto& frames : scripts) {
    for (const TimelineFrame& frame : frames) captured.add(begun + frame.at, frame.bytes);
    begun = begun + milliseconds(60'000);
  }
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(captured.bytes().data()),
             static_cast<std::streamsize>(captured.bytes().size()));
  file.flush();
  return file.good();
}

int run_file(const std::string& path, const Options& options, std::vector<std::vector<TimelineFrame>>& captured) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.is_open() || file.bad()) {
    std::fprintf(stderr, "%s: cannot be read: %s\n", path.c_str(), std::strerror(errno));
    return kUnusable;
  }
  try {
    const Script script = parse(path, text);
    const Result result = run(script, !options.pcap.empty());
    if (!options.pcap.empty()) captured.push_back(result.frames);
    if (options.verbose && result.passed) {
      std::printf("%s\n", path.c_str());
      for (const std::string& line : result.timeline) std::printf("  %s\n", line.c_str());
    }
    if (!result.passed) {
      std::fputs(result.report.c_str(), stdout);
      std::printf("FAILED %s\n", path.c_str());
      return kFailed;
    }
    if (!options.quiet) std::printf("ok %s\n", path.c_str());
    return 0;
  } catch (const ScriptError& error) {
    std::fputs(explain(path, split_lines(text), error.where(), error.what()).c_str(), stderr);
    return kUnusable;
  }
}

void add_options(CLI::App& app, Options& options) {
  app.description("Runs packet scripts against uroce's engine, with a clock of their own.");
  app.add_flag("--verbose,-v", options.verbose, "print every script's timeline");
  app.add_flag("--quiet,-q", options.quiet, "print failures only");
  app.add_option("--pcap", options.pcap, "write the packets of the timeline (of all scripts, one after the other)");
  app.add_option("SCRIPT", options.files, "files *.rdrill")->required();
  app.footer("Exit status: 0 all passed, 1 the engine did something else, 2 a script or the command line is wrong.");
}

int run_all(const Options& options) {
  int worst = 0;
  size_t failed = 0;
  std::vector<std::vector<TimelineFrame>> captured;
  for (const std::string& path : options.files) {
    const int result = run_file(path, options, captured);
    failed += result != 0 ? 1 : 0;
    worst = std::max(worst, result);
  }
  if (!options.pcap.empty() && !write_pcap(options.pcap, captured)) {
    std::fprintf(stderr, "%s: cannot be written\n", options.pcap.c_str());
    return kUnusable;
  }
  std::printf("%zu scripts: %zu passed, %zu failed\n", options.files.size(), options.files.size() - failed, failed);
  return worst;
}

}  // namespace
}  // namespace uroce::script

int main(int argc, char** argv) {
  try {
    CLI::App app;
    app.name("uroce-drill");
    uroce::script::Options options;
    uroce::script::add_options(app, options);
    if (const auto status = uroce::apps::parse_command_line(app, argc, argv)) return *status;
    return uroce::script::run_all(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "uroce-drill: %s\n", error.what());
    return 2;
  }
}
