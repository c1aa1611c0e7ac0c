#include "lint/finding.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace uroce::lint {

void Findings::sort() {
  std::stable_sort(kept_.begin(), kept_.end(), [](const Finding& a, const Finding& b) { return a.frame < b.frame; });
}

std::string sentence(const char* format, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

}  // namespace uroce::lint
