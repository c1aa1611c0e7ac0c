// The commands of the launcher. Each sets the exit code: 0, or 2 for a mistake of the caller, or what it documents.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace uroce::launcher {

class Settings;

inline constexpr int kUsageError = 2;
inline constexpr int kCannotExecute = 126;  // the same codes as in a shell
inline constexpr int kNotFound = 127;

/// Prints "uroce: MESSAGE" on stderr; returns kUsageError.
int fail(const std::string& message);

/// `program` are the words after "--".
void add_run(CLI::App& app, const std::vector<std::string>& program, int& exit_code);
/// Becomes the program, with uroce as its RDMA device; returns the exit code when it cannot.
int run(Settings& settings, std::vector<std::string> words);
void add_ping(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_stats(CLI::App& app, int& exit_code);
void add_capture(CLI::App& app, int& exit_code);
void add_metrics(CLI::App& app, int& exit_code);
/// `ls`, `qp` and `top`.
void add_list(CLI::App& app, int& exit_code);
void add_version(CLI::App& app);

/// Where the preload library is: beside the launcher in a build tree, else where it was installed. "" if nowhere.
std::string find_shim();
/// The same file by a path that LD_PRELOAD can carry: a link in the runtime directory, where its own has a space or a
/// colon. "", with one line in `error`, when there is none.
std::string preloadable(const std::string& shim, std::string& error);
/// The path of a program as execvp would find it, or "".
std::string find_program(const std::string& name);

}  // namespace uroce::launcher
