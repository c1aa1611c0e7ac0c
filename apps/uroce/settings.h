// The settings of `uroce run`: flags override a configuration file, and the file overrides the environment.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace uroce::launcher {

/// One setting: a flag `--name`, the same name in a file, and the variable that the program reads.
struct Setting {
  const char* name;
  const char* variable;
  std::string help;
  bool repeatable;
  std::vector<std::string> values;  // empty: not given
};

class Settings {
 public:
  Settings();
  void add_options(CLI::App& run);
  /// Reads `--conf`, sets the variables, and checks everything against this machine. Returns false, with one line in
  /// `error`, when something is wrong.
  bool apply(std::string& error);

 private:
  bool read_file(std::string& error);
  bool check(std::string& error) const;

  std::vector<Setting> settings_;
  std::string conf_file_;
};

}  // namespace uroce::launcher
