// What went wrong: one line for users, and an errno for programs.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <string>

namespace mqnic {

struct Failure {
  int code = 0;  // negative errno; 0: no failure
  std::string message;
  explicit operator bool() const { return code != 0; }
};

[[gnu::format(printf, 2, 3)]] inline Failure failure(int code, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return {code, text};
}

}  // namespace mqnic
