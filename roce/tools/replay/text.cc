#include "replay/text.h"

#include <cstdarg>
#include <cstdio>

namespace uroce::replay {

std::string format(const char* text, ...) {
  va_list arguments;
  va_start(arguments, text);
  char buffer[512];
  const int length = std::vsnprintf(buffer, sizeof buffer, text, arguments);
  va_end(arguments);
  return length < 0 ? std::string() : std::string(buffer);
}

}  // namespace uroce::replay
