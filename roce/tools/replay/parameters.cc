#include "replay/parameters.h"

#include <charconv>

#include "replay/text.h"
#include "uroce/types.h"

namespace uroce::replay {

namespace {

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  line = line.substr(0, line.find('#'));
  constexpr std::string_view kBetween = " \t\r=";
  for (size_t at = line.find_first_not_of(kBetween); at != std::string_view::npos;
       at = line.find_first_not_of(kBetween, at)) {
    const size_t end = std::min(line.find_first_of(kBetween, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

std::optional<uint64_t> number_of(std::string_view text) {
  const int base = text.starts_with("0x") ? 16 : 10;
  if (base == 16) text.remove_prefix(2);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<uint32_t> access_of(std::string_view text) {
  struct Right {
    std::string_view name;
    uint32_t bits;
  };
  constexpr Right kRights[] = {{"none", 0}, {"read", kRemoteRead}, {"write", kRemoteWrite}, {"atomic", kRemoteAtomic}};
  uint32_t bits = 0;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const auto* right = kRights;
    while (right != std::end(kRights) && right->name != text.substr(0, comma)) right++;
    if (right == std::end(kRights)) return std::nullopt;
    bits |= right->bits;
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return bits;
}

bool parse_region(const std::vector<std::string_view>& words, Parameters& out) {
  if (words.size() != 5) return false;
  const auto rkey = number_of(words[1]);
  const auto va = number_of(words[2]);
  const auto length = number_of(words[3]);
  const auto access = access_of(words[4]);
  if (!rkey || !va || !length || !access || *rkey > UINT32_MAX) return false;
  out.regions.push_back({static_cast<uint32_t>(*rkey), *va, *length, *access});
  return true;
}

bool parse_line(const std::vector<std::string_view>& words, Parameters& out) {
  if (words[0] == "region") return parse_region(words, out);
  if (words.size() != 2) return false;
  if (words[0] == "access") return (out.access = access_of(words[1])).has_value();
  struct Name {
    std::string_view name;
    std::optional<uint32_t> Parameters::*where;
    uint64_t max;
  };
  const Name names[] = {{"mtu", &Parameters::mtu, 4096},
                        {"psn", &Parameters::psn, 0xFFFFFF},
                        {"msn", &Parameters::msn, 0xFFFFFF},
                        {"rnr_timer", &Parameters::rnr_timer, 31},
                        {"read_depth", &Parameters::read_depth, 255}};
  for (const Name& known : names) {
    if (known.name != words[0]) continue;
    const auto value = number_of(words[1]);
    if (!value || *value > known.max) return false;
    out.*known.where = static_cast<uint32_t>(*value);
    return true;
  }
  return false;
}

}  // namespace

std::string parse_parameters(std::string_view text, Parameters& out) {
  for (unsigned number = 1; !text.empty(); number++) {
    const size_t end = std::min(text.find('\n'), text.size());
    const auto words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!words.empty() && !parse_line(words, out)) {
      return format(
          "line %u: write mtu, psn, msn, rnr_timer, read_depth or access = VALUE, or region = RKEY VA LENGTH "
          "read,write,atomic",
          number);
    }
  }
  return "";
}

}  // namespace uroce::replay
