// A line of a script as words, and words as numbers and times.
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

/// Words between spaces; `#` begins a comment.
std::vector<Token> split_words(const std::string& line, uint32_t number);

/// A whole number at the front of `text`, which is cut off. Hexadecimal with 0x; K and M multiply by 1024 and 1024^2.
std::optional<int64_t> take_integer(std::string_view& text);
/// Sums of integers, `i`, and integer*i, without spaces.
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
