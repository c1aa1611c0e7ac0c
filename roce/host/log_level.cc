#include "host/log_level.h"

namespace uroce {

bool parse_log_level(const std::string& text, LogLevel& level) {
  constexpr const char* kNames[] = {"error", "warning", "info", "debug"};
  for (unsigned i = 0; i < 4; i++) {
    if (text == kNames[i]) {
      level = static_cast<LogLevel>(i);
      return true;
    }
  }
  return false;
}

}  // namespace uroce
