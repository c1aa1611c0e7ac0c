// What programs have in common at their start.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace uroce::apps {

constexpr int kUsageError = 2;

/// Reads the command line. The exit status when the program has nothing more to do: help was asked for, or it is wrong
/// and one line on stderr says how.
std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv);

/// The same in two steps: `complete` looks at what was read, and says what is wrong with it, or nothing. False: the
/// program ends here, with `code`.
bool parse_command_line(CLI::App& app, int argc, char** argv, const std::function<std::string()>& complete, int& code);

/// False, and one line on stderr, when none is named.
bool any_capture(const CLI::App& app, const std::vector<std::string>& captures);

}  // namespace uroce::apps
