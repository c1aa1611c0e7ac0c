#include "congestion/parameters.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <span>
#include <variant>

#include "congestion/algorithms.h"

namespace uroce {

namespace {

using Field = CongestionParameter::Field;

/// Of every algorithm.
constexpr CongestionParameter kParameters[] = {
    {"min_time_between_cnps", 0, kMostMicroseconds,
     [](CongestionConfig& c) -> Field { return &c.notification.min_time_between_cnps; }},
    {"cnp_dscp", 0, 63, [](CongestionConfig& c) -> Field { return &c.notification.cnp_dscp; }},
    {"cnp_802p_prio", 0, 7, [](CongestionConfig& c) -> Field { return &c.notification.cnp_802p_prio; }},
    {"has_win", 0, 1, [](CongestionConfig& c) -> Field { return &c.has_win; }},
    {"var_win", 0, 1, [](CongestionConfig& c) -> Field { return &c.var_win; }},
    {"base_rtt", 0, kMostMicroseconds, [](CongestionConfig& c) -> Field { return &c.base_rtt; }},
    {"burst_bytes", 0, 10'000'000, [](CongestionConfig& c) -> Field { return &c.burst_bytes; }},
};

const CongestionParameter* find_parameter(std::string_view name) {
  const auto in = [name](std::span<const CongestionParameter> parameters) {
    const auto found = std::find_if(parameters.begin(), parameters.end(),
                                    [name](const CongestionParameter& p) { return name == p.name; });
    return found == parameters.end() ? nullptr : &*found;
  };
  for (const CongestionAlgorithmRow& row : congestion_algorithms()) {
    if (const CongestionParameter* found = in(row.parameters)) return found;
  }
  return in(kParameters);
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

/// Values as NICs are shipped.
void set_nic_profile(CongestionConfig& config) {
  DcqcnConfig& d = config.dcqcn;
  d.dce_tcp_g = 1019;
  d.dce_tcp_rtt = 1;
  d.initial_alpha_value = 1023;
  d.alpha_by_interval = true;
  d.rate_reduce_monitor_period = 4;
  d.cut_by_interval = false;
  d.rpg_time_reset = 300;
  d.rpg_byte_reset = 32767;
  d.rpg_threshold = 1;
  d.rpg_ai_rate = 5;
  d.rpg_hai_rate = 50;
  d.rpg_min_rate = 1;
  d.clamp_tgt_rate = false;
  config.notification.min_time_between_cnps = 4;
}

/// Values of the HPCC authors' simulations. Their rate steps are for 25 Gbit/s (DCQCN) and 10 Gbit/s (TIMELY), and are
/// scaled here.
void set_hpcc_profile(CongestionConfig& config) {
  DcqcnConfig& d = config.dcqcn;
  const uint64_t highest = d.rpg_max_rate != 0                ? d.rpg_max_rate * kMegabit
                           : config.link_bits_per_second != 0 ? config.link_bits_per_second
                                                              : kUnknownLinkBitsPerSecond;
  const auto scaled = [highest](uint64_t step, uint64_t gigabits) {
    return std::max<uint32_t>(static_cast<uint32_t>(step * (highest / kMegabit) / (gigabits * 1000)), 1);
  };
  d.dce_tcp_g = 1020;
  d.dce_tcp_rtt = 1;
  d.initial_alpha_value = 1024;
  d.alpha_by_interval = true;
  d.rate_reduce_monitor_period = 4;
  d.cut_by_interval = true;
  d.rpg_time_reset = 300;
  d.rpg_byte_reset = 0;
  d.rpg_threshold = 1;
  d.rpg_ai_rate = scaled(5, 25);
  d.rpg_hai_rate = scaled(50, 25);
  d.rpg_min_rate = 1000;
  d.clamp_tgt_rate = false;
  config.timely.ai_rate = scaled(10, 10);
  config.timely.hai_rate = scaled(50, 10);
  config.timely.hai_below_t_low = true;
  config.notification.min_time_between_cnps = 0;
  config.burst_bytes = 0;
}

bool set_profile(CongestionConfig& config, std::string_view name, std::string& error) {
  if (name == "paper") {
    config.dcqcn = DcqcnConfig{};
    config.timely = TimelyConfig{};
    config.notification.min_time_between_cnps = NotificationConfig{}.min_time_between_cnps;
    return true;
  }
  if (name == "nic") return set_nic_profile(config), true;
  if (name == "hpcc") return set_hpcc_profile(config), true;
  error = "profile is '" + std::string(name) + "': it is paper, nic or hpcc";
  return false;
}

}  // namespace

bool set_congestion_parameter(CongestionConfig& config, std::string_view name, std::string_view value,
                              std::string& error) {
  if (name == "profile") return set_profile(config, value, error);
  const CongestionParameter* const found = find_parameter(name);
  if (found == nullptr) {
    error = "there is no congestion parameter '" + std::string(name) + "'; there are " + congestion_parameter_names();
    return false;
  }
  const Field field = found->field(config);
  double number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool fractions = std::holds_alternative<double*>(field);
  bool good = code == std::errc() && end == value.data() + value.size();
  good = good && number >= found->least && number <= found->most;  // false for a NaN
  good = good && (fractions || number == static_cast<double>(static_cast<int64_t>(number)));
  if (!good) {
    const char* kind = fractions ? "a number" : "a whole number";
    error = std::string(name) + " is '" + std::string(value) + "': it is " + kind + " from " +
            number_text(found->least) + " to " + number_text(found->most);
    return false;
  }
  if (auto* const* u = std::get_if<uint32_t*>(&field)) **u = static_cast<uint32_t>(number);
  if (auto* const* b = std::get_if<bool*>(&field)) **b = number != 0;
  if (auto* const* d = std::get_if<double*>(&field)) **d = number;
  if (auto* const* t = std::get_if<Duration*>(&field)) **t = microseconds(static_cast<int64_t>(number));
  return true;
}

bool set_congestion_parameter(CongestionConfig& config, std::string_view assignment, std::string& error) {
  const size_t sign = assignment.find('=');
  if (sign == std::string_view::npos) {
    error = "'" + std::string(assignment) + "' is not NAME=VALUE";
    return false;
  }
  return set_congestion_parameter(config, assignment.substr(0, sign), assignment.substr(sign + 1), error);
}

std::string congestion_parameter_names() {
  std::string names;
  const auto append = [&names](std::span<const CongestionParameter> parameters) {
    for (const CongestionParameter& p : parameters) names += std::string(p.name) + " ";
  };
  for (const CongestionAlgorithmRow& row : congestion_algorithms()) append(row.parameters);
  append(kParameters);
  return names + "profile";
}

}  // namespace uroce
