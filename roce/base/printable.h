// Foreign text, made safe for a terminal or a log.
#pragma once

#include <string>
#include <string_view>

namespace uroce {

/// `text` with a '?' for every byte that is no printable ASCII character: no escape sequence, no line break.
inline std::string printable(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c < ' ' || c > '~') c = '?';
  }
  return result;
}

}  // namespace uroce
