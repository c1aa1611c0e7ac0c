// How texts of faults are cut into statements: at line ends and at ';', without the comments that '#' begins.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace uroce::fabric {

inline constexpr std::string_view kBlanks = " \t\r";

/// Calls `f(line, statement)`, lines counted from 1, until it returns false. Statements may be blank.
template <typename F>
void for_each_statement(std::string_view text, F&& f) {
  for (size_t line = 1; !text.empty(); line++) {
    std::string_view rest = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(rest.size() + 1, text.size()));
    rest = rest.substr(0, rest.find('#'));
    while (!rest.empty()) {
      const std::string_view statement = rest.substr(0, rest.find(';'));
      rest.remove_prefix(std::min(statement.size() + 1, rest.size()));
      if (!f(line, statement)) return;
    }
  }
}

/// Cuts the first word, and the blanks around it, off the front of `text`.
inline std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(kBlanks));
  text.remove_prefix(word.size());
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return word;
}

}  // namespace uroce::fabric
