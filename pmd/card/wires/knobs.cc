#include "pmd/card/wires/knobs.h"

#include <charconv>
#include <optional>
#include <string_view>

namespace mqnic::card {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

/// A number from 0 to `max`, followed by one of `units`.
template <size_t kUnits>
std::optional<double> parse_number(std::string_view text, const Unit (&units)[kUnits], double max) {
  double number = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (wrong != std::errc{} || !(number >= 0)) return std::nullopt;
  const std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
  for (const Unit& unit : units) {
    if (rest != unit.name) continue;
    const double value = number * unit.factor;
    return value <= max ? std::optional(value) : std::nullopt;
  }
  return std::nullopt;
}

constexpr Unit kRateUnits[] = {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
constexpr Unit kTimeUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
constexpr Unit kChanceUnits[] = {{"", 1}, {"%", 0.01}};

constexpr double kRateMax = 1e13;
constexpr double kTimeMaxNs = 1e10;

bool set_chance(double& knob, std::string_view value) {
  const auto chance = parse_number(value, kChanceUnits, 1.0);
  if (chance) knob = *chance;
  return chance.has_value();
}

bool set_time(uint64_t& knob, std::string_view value) {
  const auto time = parse_number(value, kTimeUnits, kTimeMaxNs);
  if (time) knob = static_cast<uint64_t>(*time);
  return time.has_value();
}

bool set_whole(uint64_t& knob, std::string_view value, uint64_t max) {
  uint64_t number = 0;
  const auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (wrong != std::errc{} || end != value.data() + value.size() || number > max) return false;
  knob = number;
  return true;
}

bool set_pause(WireKnobs& knobs, std::string_view value) {
  const size_t at = value.find('@');
  uint64_t quanta = 0;
  uint64_t interval = 0;
  if (at == std::string_view::npos || !set_whole(quanta, value.substr(0, at), 0xffff)) return false;
  if (!set_time(interval, value.substr(at + 1)) || interval == 0) return false;
  knobs.pause_quanta = static_cast<uint16_t>(quanta);
  knobs.pause_interval_ns = interval;
  return true;
}

bool set_bandwidth(WireKnobs& knobs, std::string_view value) {
  const auto rate = parse_number(value, kRateUnits, kRateMax);
  if (!rate || (*rate != 0 && *rate < 1000)) return false;
  knobs.bandwidth_bps = static_cast<uint64_t>(*rate);
  return true;
}

}  // namespace

bool set_wire_knob(WireKnobs& knobs, const std::string& name, const std::string& value, std::string& error) {
  bool good = false;
  const char* want = "a chance from 0 to 1, such as 0.01 or 1%";
  if (name == "bandwidth") {
    good = set_bandwidth(knobs, value);
    want = "bits a second, such as 10G or 500M, at least 1K";
  } else if (name == "delay") {
    good = set_time(knobs.delay_ns, value);
    want = "a time of at most 10s with its unit, such as 20us";
  } else if (name == "loss") {
    good = set_chance(knobs.loss, value);
  } else if (name == "corrupt") {
    good = set_chance(knobs.corrupt, value);
  } else if (name == "duplicate") {
    good = set_chance(knobs.duplicate, value);
  } else if (name == "reorder") {
    good = set_chance(knobs.reorder, value);
  } else if (name == "pause") {
    good = set_pause(knobs, value);
    want = "QUANTA@INTERVAL, such as 65535@1ms";
  } else if (name == "seed") {
    good = set_whole(knobs.seed, value, UINT64_MAX);
    want = "a whole number";
  } else {
    error = "the wire has no knob '" + name + "'; it has";
    for (const char* known : kWireKnobNames) error += std::string(" ") + known;
    return false;
  }
  if (!good) error = name + "=" + value + ": give " + want;
  return good;
}

}  // namespace mqnic::card
