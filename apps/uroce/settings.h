// The settings of `uroce run`: from flags, then from a configuration file, then from the environment.
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
  const char* help;
  bool repeatable;
  std::vector<std::string> values;  // empty: not given
};

class Settings {
 public:
  Settings();
  void add_options(CLI::App& run);
  /// Reads `--conf`, sets the variables, and checks everything against this machine. False and one line in `error`.
  bool apply(std::string& error);

 private:
  bool read_file(std::string& error);
  bool check(std::string& error) const;

  std::vector<Setting> settings_;
  std::string conf_file_;
};

}  // namespace uroce::launcher
