// Helpers for the command lines of the programs.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace uroce::apps {

constexpr int kUsageError = 2;

/// Adds `--version`, which every program has: it prints the program's name and the version of all programs.
void add_version_flag(CLI::App& app);

/// Reads the command line, --version included. Returns the exit status if the program has nothing more to do, because
/// help was asked for, or because the command line is wrong, which was reported in one line on stderr.
std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv);

/// The same in two steps: `complete` checks what was read, and returns what is wrong with it, or "". False when the
/// program ends here, with `code`.
bool parse_command_line(CLI::App& app, int argc, char** argv, const std::function<std::string()>& complete, int& code);

/// Returns false, and prints one line on stderr, when no capture is named.
bool any_capture(const CLI::App& app, const std::vector<std::string>& captures);

}  // namespace uroce::apps
