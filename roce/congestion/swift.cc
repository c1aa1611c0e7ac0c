#include "congestion/swift.h"

#include <cmath>

#include "congestion/algorithms.h"

namespace uroce {

namespace {

constexpr double kSmallestWindow = 0.001;  // packets

}  // namespace

void Swift::restart() {
  window_ = smoothed_ns_ = 0;
  updated_at_ = decreased_at_ = {0};
}

/// The configured target plus what a small window adds to it, which is proportional to 1/sqrt(window) between two
/// bounds.
Duration Swift::target() const {
  const Duration base = microseconds(parameters_.target);
  if (parameters_.fs_range == 0 || window_ <= 0) return base;
  const double range_ns = 1000.0 * parameters_.fs_range;
  const double at_max = 1 / std::sqrt(parameters_.fs_max_cwnd);
  const double slope = range_ns / (1 / std::sqrt(parameters_.fs_min_cwnd) - at_max);
  const double extra = slope * (1 / std::sqrt(window_) - at_max);
  return {base.ns + static_cast<int64_t>(std::clamp(extra, 0.0, range_ns))};
}

void Swift::handle_rtt(Duration rtt, Instant now) {
  const auto newest = static_cast<double>(rtt.ns);
  smoothed_ns_ = smoothed_ns_ == 0 ? newest : smoothed_ns_ + (newest - smoothed_ns_) / 8;
  const double most = static_cast<double>(max_rate()) * smoothed_ns_ / 8e9 / mtu_;
  if (window_ == 0) window_ = most;
  if (now.ns - rtt.ns >= updated_at_.ns) {
    const Duration goal = target();
    if (rtt < goal) {
      updated_at_ = now;
      window_ += window_ >= 1 ? parameters_.ai : parameters_.ai * window_;
    } else {
      const double excess = static_cast<double>(rtt.ns - goal.ns) / newest;
      decrease(1 - parameters_.beta * excess, now);
    }
  }
  window_ = std::min(window_, most);
  apply();
}

void Swift::decrease(double factor, Instant now) {
  updated_at_ = decreased_at_ = now;
  window_ = std::max(window_ * std::max(factor, 1 - parameters_.max_mdf), kSmallestWindow);
}

void Swift::on_loss(Instant now) {
  CongestionControl::on_loss(now);
  if (window_ == 0 || static_cast<double>(now.ns - decreased_at_.ns) < smoothed_ns_) return;
  decrease(0, now);
  apply();
}

void Swift::advance(Instant now) {
  while (doubles_at() <= now) {
    on_doubled();
    window_ = 2 * static_cast<double>(rate_) * smoothed_ns_ / 8e9 / mtu_;
    apply();
  }
}

void Swift::apply() {
  const double rate = window_ * mtu_ * 8e9 / smoothed_ns_;
  const uint64_t lowest = std::min(config_.dcqcn.rpg_min_rate * kMegabit, max_rate());
  set_rate(std::max(static_cast<uint64_t>(rate), lowest));
}

uint64_t Swift::own_window_bytes() const {
  if (!limited_) return 0;
  return static_cast<uint64_t>(std::max(window_, 1.0) * mtu_);
}

namespace {

using Field = CongestionParameter::Field;

constexpr CongestionParameter kParameters[] = {
    {"swift_target", 1, kMostMicroseconds, [](CongestionConfig& c) -> Field { return &c.swift.target; }},
    {"swift_ai", 0.001, 1000, [](CongestionConfig& c) -> Field { return &c.swift.ai; }},
    {"swift_beta", 0, 1, [](CongestionConfig& c) -> Field { return &c.swift.beta; }},
    {"swift_max_mdf", 0, 1, [](CongestionConfig& c) -> Field { return &c.swift.max_mdf; }},
    {"swift_fs_range", 0, kMostMicroseconds, [](CongestionConfig& c) -> Field { return &c.swift.fs_range; }},
    {"swift_fs_min_cwnd", 0.001, 1000, [](CongestionConfig& c) -> Field { return &c.swift.fs_min_cwnd; }},
    {"swift_fs_max_cwnd", 0.01, 100'000, [](CongestionConfig& c) -> Field { return &c.swift.fs_max_cwnd; }},
};

}  // namespace

std::span<const CongestionParameter> Swift::parameters() { return kParameters; }

}  // namespace uroce
