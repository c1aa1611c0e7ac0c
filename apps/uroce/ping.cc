#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "settings.h"

namespace uroce::launcher {
namespace {

/// `uroce-ping` is beside the launcher.
int ping(Settings& settings, std::vector<std::string> words) {
  // A host is another machine, unless something else was said.
  setenv("UROCE_PORT", "network", 0);
  std::error_code code;
  words.insert(words.begin(), std::filesystem::read_symlink("/proc/self/exe", code).parent_path() / "uroce-ping");
  if (access(words[0].c_str(), X_OK) != 0) return fail(words[0] + " is missing: " + std::strerror(errno));
  return run(settings, words);
}

}  // namespace

void add_ping(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "ping", "does RoCE get through to a host? uroce ping [OPTIONS] HOST, and uroce ping --serve there for more");
  auto settings = std::make_shared<Settings>();
  settings->add_options(*command);
  command->footer("and those of uroce-ping --help");
  command->allow_extras();
  command->callback([command, settings, &exit_code] { exit_code = ping(*settings, command->remaining()); });
}

}  // namespace uroce::launcher
