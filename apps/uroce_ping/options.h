// The options of uroce-ping.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace uroce::ping {

struct Options {
  std::string host;  // "" if it serves
  bool serve = false;
  uint32_t count = 3;
  std::chrono::milliseconds interval{200};
  std::chrono::milliseconds patience{2000};  // for each answer
};

/// False when the program ends here, with `code`; help or one line that says what is wrong has been printed.
bool parse_options(int argc, char** argv, Options& options, int& code);

}  // namespace uroce::ping
