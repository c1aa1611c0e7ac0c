#include "script/text.h"

#include <cstdarg>
#include <cstdio>

namespace uroce::script {

std::string format(const char* text, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(line, sizeof line, text, arguments);
  va_end(arguments);
  return line;
}

std::string to_text(Duration duration) {
  if (duration.ns == 0) return "0";
  struct Unit {
    int64_t ns;
    const char* name;
  };
  static constexpr Unit kUnits[] = {{1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}, {1, "ns"}};
  const int64_t size = duration.ns < 0 ? -duration.ns : duration.ns;
  for (const Unit& unit : kUnits) {
    if (size < unit.ns) continue;
    std::string digits = format("%lld", static_cast<long long>(size / unit.ns));
    std::string fraction;
    for (int64_t rest = size % unit.ns, scale = unit.ns / 10; rest != 0; rest %= scale, scale /= 10) {
      fraction += static_cast<char>('0' + rest / scale);
      if (scale == 1) break;
    }
    return (duration.ns < 0 ? "-" : "") + digits + (fraction.empty() ? "" : "." + fraction) + unit.name;
  }
  return "0";
}

std::vector<uint8_t> pattern_bytes(int64_t n, int64_t offset, size_t count) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; i++) bytes[i] = pattern_byte(n, offset + static_cast<int64_t>(i));
  return bytes;
}

}  // namespace uroce::script
