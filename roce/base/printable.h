// What others wrote, as a terminal or a log may have it.
#pragma once

#include <string>
#include <string_view>

namespace uroce {

/// `text` with a '?' for every byte that is no printable ASCII character: no escape sequence, no end of a line.
inline std::string printable(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c < ' ' || c > '~') c = '?';
  }
  return result;
}

}  // namespace uroce
