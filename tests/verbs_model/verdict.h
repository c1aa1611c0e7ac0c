// The first thing that went wrong in a run.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace uroce::model {

class Verdict {
 public:
  bool failed() const { return !text_.empty(); }
  const std::string& text() const { return text_; }

  [[gnu::format(printf, 2, 3)]] void fail(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfail(format, arguments);
    va_end(arguments);
  }
  [[gnu::format(printf, 2, 0)]] void vfail(const char* format, va_list arguments) {
    if (failed()) return;
    char text[512];
    std::vsnprintf(text, sizeof text, format, arguments);
    text_ = text;
  }

 private:
  std::string text_;
};

}  // namespace uroce::model
