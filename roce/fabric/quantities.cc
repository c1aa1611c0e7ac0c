#include "fabric/quantities.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>

namespace uroce::fabric {
namespace {

std::optional<double> parse_scaled(const std::string& text, const char* units, double step) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc()) return std::nullopt;
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (unit.size() > 1) return std::nullopt;
  if (unit.size() == 1) {
    const char* at = std::strchr(units, std::toupper(static_cast<unsigned char>(unit[0])));
    if (at == nullptr || *at == 0) return std::nullopt;
    for (; at >= units; at--) value *= step;
  }
  return value >= 0 && value < 1e15 ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<uint64_t> parse_rate(const std::string& text) {
  const auto value = parse_scaled(text, "KMGT", 1000);
  if (!value || *value < 1000) return std::nullopt;
  return static_cast<uint64_t>(std::llround(*value));
}

std::optional<uint64_t> parse_bytes(const std::string& text) {
  const auto value = parse_scaled(text, "KMG", 1000);
  if (!value) return std::nullopt;
  return static_cast<uint64_t>(std::llround(*value));
}

std::string parse_ecn(const std::string& text, std::optional<EcnConfig>& ecn) {
  EcnConfig config;
  if (text == "on") return ecn = config, "";
  config.per_bits_per_second = 0;
  bool kmax_given = false;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string pair = text.substr(at, end - at);
    at = end + 1;
    const size_t equal = std::min(pair.find('='), pair.size());
    const std::string key = pair.substr(0, equal);
    const std::string value = pair.substr(std::min(equal + 1, pair.size()));
    const auto bytes = parse_bytes(value);
    const bool small = bytes && *bytes < UINT32_MAX;
    if (key == "kmin" && small) {
      config.kmin_bytes = static_cast<uint32_t>(*bytes);
    } else if (key == "kmax" && small) {
      config.kmax_bytes = static_cast<uint32_t>(*bytes);
      kmax_given = true;
    } else if (const auto p = parse_scaled(value, "", 1); key == "pmax" && p && *p <= 1) {
      config.pmax = *p;
    } else {
      return "'" + pair + "' is none of kmin=BYTES, kmax=BYTES, pmax=0..1";
    }
  }
  if (!kmax_given) config.kmax_bytes = std::max(config.kmax_bytes, config.kmin_bytes);
  if (config.kmin_bytes > config.kmax_bytes) return "kmin is above kmax";
  ecn = config;
  return "";
}

}  // namespace uroce::fabric
