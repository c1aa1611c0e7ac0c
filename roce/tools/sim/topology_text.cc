// Topologies from text, and numbers with units.
#include <algorithm>
#include <charconv>

#include "sim/topology.h"

namespace uroce::sim {

namespace {

/// A decimal number with up to nine decimal places, times `unit`, exactly. False when it has other characters or does
/// not fit.
bool scaled(std::string_view digits, uint64_t unit, uint64_t& value) {
  uint64_t whole = 0;
  const char* const end = digits.data() + digits.size();
  const auto [at, status] = std::from_chars(digits.data(), end, whole);
  if (status != std::errc() || (unit != 0 && whole > UINT64_MAX / 2 / unit)) return false;
  value = whole * unit;
  if (at == end) return true;
  if (*at != '.' || at + 1 == end || end - at > 10) return false;
  uint64_t part = unit;
  for (const char* digit = at + 1; digit != end; digit++) {
    if (*digit < '0' || *digit > '9' || part % 10 != 0) return false;
    part /= 10;
    value += part * static_cast<uint64_t>(*digit - '0');
  }
  return true;
}

struct Unit {
  std::string_view name;
  uint64_t factor;
};

/// The first unit in the list with which the text ends is used, so longer ones must come first.
template <size_t N>
bool with_unit(std::string_view text, const Unit (&units)[N], uint64_t& value) {
  for (const Unit& unit : units) {
    if (!text.ends_with(unit.name)) continue;
    text.remove_suffix(unit.name.size());
    return scaled(text, unit.factor, value);
  }
  return false;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  line = line.substr(0, line.find('#'));
  while (true) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return words;
    const size_t end = line.find_first_of(" \t\r", begin);
    words.push_back(line.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return words;
    line = line.substr(end);
  }
}

constexpr uint32_t kRangeMax = 4096;

/// "h[0-3]x" gives h0x h1x h2x h3x. The result is empty when the word is malformed.
std::vector<std::string> names_of(std::string_view word) {
  const size_t open = word.find('[');
  if (open == std::string_view::npos) return {std::string(word)};
  const size_t dash = word.find('-', open);
  const size_t close = word.find(']', open);
  if (dash == std::string_view::npos || close == std::string_view::npos || dash > close) return {};
  uint32_t first = 0;
  uint32_t last = 0;
  const auto number = [&](size_t begin, size_t end, uint32_t& value) {
    const char* const stop = word.data() + end;
    const auto [at, status] = std::from_chars(word.data() + begin, stop, value);
    return status == std::errc() && at == stop;
  };
  if (!number(open + 1, dash, first) || !number(dash + 1, close, last)) return {};
  if (last < first || last - first >= kRangeMax) return {};
  std::vector<std::string> names;
  for (uint32_t i = first; i <= last; i++) {
    names.push_back(std::string(word.substr(0, open)) + std::to_string(i) + std::string(word.substr(close + 1)));
  }
  return names;
}

class Parser {
 public:
  /// Returns what is wrong with the line, or an empty string.
  std::string line(std::string_view text) {
    const auto words = words_of(text);
    if (words.empty()) return "";
    if (words[0] == "host" || words[0] == "switch") return nodes(words);
    if (words[0] == "link") return links(words);
    if (words[0] == "flow") return flows(words);
    return "'" + std::string(words[0]) + "': expected host, switch, link or flow";
  }
  Topology& drawing() { return drawing_; }

 private:
  std::string nodes(const std::vector<std::string_view>& words) {
    for (size_t i = 1; i < words.size(); i++) {
      const auto names = names_of(words[i]);
      if (names.empty()) return "'" + std::string(words[i]) + "' is not a name or NAME[A-B]";
      for (const std::string& name : names) {
        if (drawing_.find(name) != drawing_.nodes.size()) return "'" + name + "' is there twice";
        drawing_.add(name, words[0] == "host");
      }
    }
    return "";
  }

  std::string pairs(std::string_view a, std::string_view b, std::vector<std::pair<uint32_t, uint32_t>>& found) const {
    const auto first = names_of(a);
    const auto second = names_of(b);
    const size_t count = std::max(first.size(), second.size());
    if (first.empty() || second.empty()) return "malformed range";
    if (first.size() != second.size() && first.size() != 1 && second.size() != 1) return "ranges of different lengths";
    for (size_t i = 0; i < count; i++) {
      const std::string& from = first[first.size() == 1 ? 0 : i];
      const std::string& to = second[second.size() == 1 ? 0 : i];
      found.emplace_back(drawing_.find(from), drawing_.find(to));
      if (found.back().first == drawing_.nodes.size()) return "no node '" + from + "'";
      if (found.back().second == drawing_.nodes.size()) return "no node '" + to + "'";
      if (from == to) return "'" + from + "' with itself";
    }
    return "";
  }

  std::string links(const std::vector<std::string_view>& words) {
    uint64_t rate = 0;
    Duration delay;
    if (words.size() != 5) return "expected: link A B RATE DELAY";
    if (!parse_rate(words[3], rate) || rate < kRateMin) return "'" + std::string(words[3]) + "' is not a rate";
    if (!parse_duration(words[4], delay)) return "'" + std::string(words[4]) + "' is not a time";
    std::vector<std::pair<uint32_t, uint32_t>> found;
    if (std::string why = pairs(words[1], words[2], found); !why.empty()) return why;
    for (const auto& [a, b] : found) drawing_.connect(a, b, rate, delay);
    return "";
  }

  std::string flows(const std::vector<std::string_view>& words) {
    if (words.size() != 3) return "expected: flow A B";
    if (std::string why = pairs(words[1], words[2], drawing_.flows); !why.empty()) return why;
    for (const auto& [a, b] : drawing_.flows) {
      if (!drawing_.nodes[a].is_host || !drawing_.nodes[b].is_host) return "flows go from host to host";
    }
    return "";
  }

  Topology drawing_;
};

}  // namespace

bool parse_rate(std::string_view text, uint64_t& bits_per_second) {
  static constexpr Unit kUnits[] = {
      {"Tbps", 1'000'000'000'000}, {"Gbps", 1'000'000'000}, {"Mbps", 1'000'000}, {"kbps", 1'000}, {"bps", 1},
      {"T", 1'000'000'000'000},    {"G", 1'000'000'000},    {"M", 1'000'000},    {"k", 1'000},    {"", 1}};
  return with_unit(text, kUnits, bits_per_second);
}

bool parse_duration(std::string_view text, Duration& duration) {
  static constexpr Unit kUnits[] = {{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}};
  constexpr uint64_t kLongest = 1'000'000'000'000'000;  // sums and picoseconds stay far from what 64 bits hold
  uint64_t ns = 0;
  if (!with_unit(text, kUnits, ns) || ns > kLongest) return false;
  duration = nanoseconds(static_cast<int64_t>(ns));
  return true;
}

bool parse_bytes(std::string_view text, uint64_t& bytes) {
  static constexpr Unit kUnits[] = {{"kiB", 1024}, {"KiB", 1024}, {"MiB", 1 << 20},  {"GiB", 1 << 30},
                                    {"ki", 1024},  {"Ki", 1024},  {"Mi", 1 << 20},   {"Gi", 1 << 30},
                                    {"kB", 1000},  {"KB", 1000},  {"MB", 1'000'000}, {"GB", 1'000'000'000},
                                    {"k", 1000},   {"K", 1000},   {"M", 1'000'000},  {"G", 1'000'000'000},
                                    {"", 1}};
  return with_unit(text, kUnits, bytes);
}

Topology parse_topology(std::string_view text, std::string& error) {
  error.clear();
  Parser parser;
  for (uint32_t number = 1; !text.empty(); number++) {
    const size_t end = text.find('\n');
    if (const std::string why = parser.line(text.substr(0, end)); !why.empty()) {
      error = "line " + std::to_string(number) + ": " + why;
      return {};
    }
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  if (parser.drawing().hosts().empty()) error = "no host";
  return std::move(parser.drawing());
}

}  // namespace uroce::sim
