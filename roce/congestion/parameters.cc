#include "congestion/parameters.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <variant>

namespace uroce {

namespace {

using Field = std::variant<uint32_t*, bool*, double*, Duration*>;  // a Duration is given in microseconds

struct Parameter {
  const char* name;
  double least;
  double most;
  Field (*field)(CongestionConfig&);
};

constexpr double kUs = 1'000'000;
constexpr double kMbit = 4'000'000;
constexpr double kBytes = 4'000'000'000;

#define UROCE_FIELD(path) [](CongestionConfig& c) -> Field { return &c.path; }

constexpr Parameter kParameters[] = {
    {"dce_tcp_g", 0, 1023, UROCE_FIELD(dcqcn.dce_tcp_g)},
    {"dce_tcp_rtt", 1, kUs, UROCE_FIELD(dcqcn.dce_tcp_rtt)},
    {"initial_alpha_value", 0, 1024, UROCE_FIELD(dcqcn.initial_alpha_value)},
    {"alpha_by_interval", 0, 1, UROCE_FIELD(dcqcn.alpha_by_interval)},
    {"rpg_gd", 0, 15, UROCE_FIELD(dcqcn.rpg_gd)},
    {"rpg_min_dec_fac", 1, 100, UROCE_FIELD(dcqcn.rpg_min_dec_fac)},
    {"rate_reduce_monitor_period", 0, kUs, UROCE_FIELD(dcqcn.rate_reduce_monitor_period)},
    {"cut_by_interval", 0, 1, UROCE_FIELD(dcqcn.cut_by_interval)},
    {"rpg_time_reset", 1, kUs, UROCE_FIELD(dcqcn.rpg_time_reset)},
    {"rpg_byte_reset", 0, kBytes, UROCE_FIELD(dcqcn.rpg_byte_reset)},
    {"rpg_threshold", 1, 31, UROCE_FIELD(dcqcn.rpg_threshold)},
    {"rpg_ai_rate", 1, kMbit, UROCE_FIELD(dcqcn.rpg_ai_rate)},
    {"rpg_hai_rate", 1, kMbit, UROCE_FIELD(dcqcn.rpg_hai_rate)},
    {"rpg_min_rate", 1, kMbit, UROCE_FIELD(dcqcn.rpg_min_rate)},
    {"rpg_max_rate", 0, kMbit, UROCE_FIELD(dcqcn.rpg_max_rate)},
    {"rate_to_set_on_first_cnp", 0, kMbit, UROCE_FIELD(dcqcn.rate_to_set_on_first_cnp)},
    {"clamp_tgt_rate", 0, 1, UROCE_FIELD(dcqcn.clamp_tgt_rate)},
    {"clamp_tgt_rate_after_time_inc", 0, 1, UROCE_FIELD(dcqcn.clamp_tgt_rate_after_time_inc)},
    {"timely_ewma", 0, 1, UROCE_FIELD(timely.ewma)},
    {"timely_beta", 0, 1, UROCE_FIELD(timely.beta)},
    {"timely_t_low", 0, kUs, UROCE_FIELD(timely.t_low)},
    {"timely_t_high", 1, kUs, UROCE_FIELD(timely.t_high)},
    {"timely_min_rtt", 1, kUs, UROCE_FIELD(timely.min_rtt)},
    {"timely_ai_rate", 1, kMbit, UROCE_FIELD(timely.ai_rate)},
    {"timely_hai_rate", 1, kMbit, UROCE_FIELD(timely.hai_rate)},
    {"timely_hai_threshold", 1, 1000, UROCE_FIELD(timely.hai_threshold)},
    {"timely_patched", 0, 1, UROCE_FIELD(timely.patched)},
    {"timely_patched_beta", 0, 1, UROCE_FIELD(timely.patched_beta)},
    {"timely_hai_below_t_low", 0, 1, UROCE_FIELD(timely.hai_below_t_low)},
    {"swift_target", 1, kUs, UROCE_FIELD(swift.target)},
    {"swift_ai", 0.001, 1000, UROCE_FIELD(swift.ai)},
    {"swift_beta", 0, 1, UROCE_FIELD(swift.beta)},
    {"swift_max_mdf", 0, 1, UROCE_FIELD(swift.max_mdf)},
    {"swift_fs_range", 0, kUs, UROCE_FIELD(swift.fs_range)},
    {"swift_fs_min_cwnd", 0.001, 1000, UROCE_FIELD(swift.fs_min_cwnd)},
    {"swift_fs_max_cwnd", 0.01, 100'000, UROCE_FIELD(swift.fs_max_cwnd)},
    {"min_time_between_cnps", 0, kUs, UROCE_FIELD(notification.min_time_between_cnps)},
    {"cnp_dscp", 0, 63, UROCE_FIELD(notification.cnp_dscp)},
    {"cnp_802p_prio", 0, 7, UROCE_FIELD(notification.cnp_802p_prio)},
    {"has_win", 0, 1, UROCE_FIELD(has_win)},
    {"var_win", 0, 1, UROCE_FIELD(var_win)},
    {"base_rtt", 0, kUs, UROCE_FIELD(base_rtt)},
    {"burst_bytes", 0, 10'000'000, UROCE_FIELD(burst_bytes)},
};

#undef UROCE_FIELD

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

bool parse_congestion_algorithm(std::string_view text, CongestionAlgorithm& algorithm) {
  for (const auto a : {CongestionAlgorithm::kNone, CongestionAlgorithm::kDcqcn, CongestionAlgorithm::kTimely,
                       CongestionAlgorithm::kSwift}) {
    if (text != congestion_algorithm_name(a)) continue;
    algorithm = a;
    return true;
  }
  return false;
}

const char* congestion_algorithm_name(CongestionAlgorithm algorithm) {
  switch (algorithm) {
    case CongestionAlgorithm::kNone:
      return "none";
    case CongestionAlgorithm::kDcqcn:
      return "dcqcn";
    case CongestionAlgorithm::kTimely:
      return "timely";
    case CongestionAlgorithm::kSwift:
      return "swift";
  }
  return "?";
}

bool set_congestion_parameter(CongestionConfig& config, std::string_view name, std::string_view value,
                              std::string& error) {
  if (name == "profile") return set_profile(config, value, error);
  const auto* const found = std::find_if(std::begin(kParameters), std::end(kParameters),
                                         [name](const Parameter& p) { return name == p.name; });
  if (found == std::end(kParameters)) {
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
  for (const Parameter& p : kParameters) names += std::string(p.name) + " ";
  return names + "profile";
}

}  // namespace uroce
