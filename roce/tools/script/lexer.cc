#include "script/lexer.h"

#include <charconv>

namespace uroce::script {

std::vector<Token> split_words(const std::string& line, uint32_t number) {
  std::vector<Token> tokens;
  size_t at = 0;
  while (at < line.size() && line[at] != '#') {
    if (line[at] == ' ' || line[at] == '\t' || line[at] == '\r') {
      at++;
      continue;
    }
    const size_t begin = at;
    while (at < line.size() && line[at] != ' ' && line[at] != '\t' && line[at] != '\r' && line[at] != '#') at++;
    tokens.push_back(
        {line.substr(begin, at - begin), {number, static_cast<uint32_t>(begin), static_cast<uint32_t>(at - begin)}});
  }
  return tokens;
}

std::optional<int64_t> take_integer(std::string_view& text) {
  int base = 10;
  std::string_view rest = text;
  if (rest.starts_with("0x")) {
    base = 16;
    rest.remove_prefix(2);
  }
  uint64_t value = 0;
  const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), value, base);
  if (read.ec != std::errc{}) return std::nullopt;
  rest.remove_prefix(static_cast<size_t>(read.ptr - rest.data()));
  if (base == 10 && !rest.empty() && (rest[0] == 'K' || rest[0] == 'M')) {
    value *= rest[0] == 'K' ? 1024u : 1024u * 1024;
    rest.remove_prefix(1);
  }
  text = rest;
  return static_cast<int64_t>(value);
}

std::optional<Number> to_number(std::string_view text) {
  Number sum;
  if (text.empty()) return std::nullopt;
  int64_t sign = 1;
  if (text[0] == '-') {
    sign = -1;
    text.remove_prefix(1);
  }
  for (;;) {
    int64_t factor = 1;
    bool round = false;
    if (text.starts_with("i")) {
      round = true;
      text.remove_prefix(1);
    } else {
      const auto integer = take_integer(text);
      if (!integer) return std::nullopt;
      factor = *integer;
      if (text.starts_with("*i")) {
        round = true;
        text.remove_prefix(2);
      }
    }
    (round ? sum.per_round : sum.base) += sign * factor;
    if (text.empty()) return sum;
    if (text[0] != '+' && text[0] != '-') return std::nullopt;
    sign = text[0] == '+' ? 1 : -1;
    text.remove_prefix(1);
  }
}

std::optional<std::vector<PsnRange>> to_ranges(std::string_view text) {
  std::vector<PsnRange> ranges;
  for (;;) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const size_t dots = part.find("..");
    const auto first = to_number(part.substr(0, dots));
    const auto last = dots == std::string_view::npos ? first : to_number(part.substr(dots + 2));
    if (!first || !last || first->per_round != 0 || last->per_round != 0) return std::nullopt;
    ranges.push_back({first->base, last->base});
    if (comma == std::string_view::npos) return ranges;
    text.remove_prefix(comma + 1);
  }
}

std::optional<Duration> to_duration(std::string_view text) {
  const size_t digits = text.find_first_not_of("0123456789.");
  std::string_view unit = digits == std::string_view::npos ? "" : text.substr(digits);
  std::string_view number = text.substr(0, digits);
  if (number.empty()) return std::nullopt;
  int64_t scale = 0;
  if (unit == "ns") scale = 1;
  if (unit == "us") scale = 1'000;
  if (unit == "ms") scale = 1'000'000;
  if (unit == "s") scale = 1'000'000'000;
  if (unit.empty() && number == "0") return Duration{0};
  if (scale == 0) return std::nullopt;
  int64_t ns = 0;
  int64_t fraction = 0;
  for (const char c : number) {
    if (c == '.') {
      if (fraction != 0) return std::nullopt;
      fraction = scale;
    } else if (fraction == 0) {
      ns = ns * 10 + (c - '0') * scale;
    } else {
      fraction /= 10;
      ns += (c - '0') * fraction;
    }
  }
  return Duration{ns};
}

}  // namespace uroce::script
