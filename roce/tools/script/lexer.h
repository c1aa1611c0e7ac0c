// Splits a line of a script into words, and reads words as numbers and times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "script/script.h"

namespace uroce::script {

struct Token {
  std::string text;
  Where where;
};

/// The words between spaces; `#` begins a comment. `number` is that of the line.
std::vector<Token> split_words(const std::string& line, uint32_t number);

/// Cuts a whole number off the front of `text`. It is hexadecimal with 0x; K and M multiply by 1024 and 1024^2.
std::optional<int64_t> take_integer(std::string_view& text);
/// Reads a sum of integers, `i` and integer*i, without spaces.
std::optional<Number> to_number(std::string_view text);
/// PSNs that a selective ACK names: "3", "3..5", "7,3..5".
struct PsnRange {
  int64_t first = 0;
  int64_t last = 0;
};
std::optional<std::vector<PsnRange>> to_ranges(std::string_view text);
/// "10us", "1.5ms", "0".
std::optional<Duration> to_duration(std::string_view text);

}  // namespace uroce::script
