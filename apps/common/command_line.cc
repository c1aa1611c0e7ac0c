#include "command_line.h"

#include <cstdio>

namespace uroce::apps {

void add_version_flag(CLI::App& app) { app.set_version_flag("--version", app.get_name() + " " UROCE_VERSION); }

std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  add_version_flag(app);
  const char* const name = app.get_name().c_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s (%s --help)\n", name, error.what(), name);
    return kUsageError;
  }
  return std::nullopt;
}

bool parse_command_line(CLI::App& app, int argc, char** argv, const std::function<std::string()>& complete, int& code) {
  if (const auto status = parse_command_line(app, argc, argv)) {
    code = *status;
    return false;
  }
  const std::string error = complete();
  if (error.empty()) return true;
  std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), error.c_str());
  code = kUsageError;
  return false;
}

bool any_capture(const CLI::App& app, const std::vector<std::string>& captures) {
  if (!captures.empty()) return true;
  const char* const name = app.get_name().c_str();
  std::fprintf(stderr, "%s: which capture? (%s --help)\n", name, name);
  return false;
}

}  // namespace uroce::apps
