// `uroce`: runs unmodified RDMA programs over uroce, and explains what they do.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "commands.h"

int uroce::launcher::fail(const std::string& message) {
  std::fprintf(stderr, "uroce: %s\n", message.c_str());
  return kUsageError;
}

int main(int argc, char** argv) {
  using namespace uroce::launcher;
  CLI::App app("RDMA programs without RDMA hardware: RoCEv2 in user space, over any DPDK port.", "uroce");
  app.set_version_flag("--version", "uroce " UROCE_VERSION);
  app.require_subcommand(1);
  // What comes after "--" belongs to the program; CLI11 never sees it.
  char** const separator =
      std::find_if(argv, argv + argc, [](const char* word) { return std::strcmp(word, "--") == 0; });
  const std::vector<std::string> program(std::min(separator + 1, argv + argc), argv + argc);
  int exit_code = 0;
  add_run(app, program, exit_code);
  add_ping(app, exit_code);
  add_doctor(app, exit_code);
  add_list(app, exit_code);
  add_stats(app, exit_code);
  add_capture(app, exit_code);
  add_metrics(app, exit_code);
  add_version(app);
  try {
    app.parse(static_cast<int>(separator - argv), argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return fail(std::string(error.what()) + " (uroce --help, uroce run --help)");
  }
  return exit_code;
}
