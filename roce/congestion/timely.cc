#include "congestion/timely.h"

#include <cmath>

#include "congestion/algorithms.h"

namespace uroce {

void Timely::restart() {
  updated_at_ = {0};
  previous_rtt_ = {0};
  difference_ns_ = 0;
  increases_ = 0;
}

void Timely::increase(bool counts) {
  const bool hyper = counts && increases_ >= parameters_.hai_threshold;
  if (counts) increases_++;
  set_rate(current() + (hyper ? parameters_.hai_rate : parameters_.ai_rate) * kMegabit);
}

void Timely::decrease(double factor) {
  increases_ = 0;
  const auto lowered = static_cast<uint64_t>(std::llround(static_cast<double>(current()) * std::max(factor, 0.0)));
  set_rate(std::max(lowered, min_rate()));
}

/// The patched rule: a mean of a step up and of a decrease by the distance from t_low, weighted by the gradient.
void Timely::follow_delay(double rtt_ns) {
  increases_ = 0;
  const double weight = std::clamp(2 * gradient() + 0.5, 0.0, 1.0);
  const double reference = 1000.0 * std::max(parameters_.t_low, 1u);
  const double error = (rtt_ns - reference) / reference;
  const auto rate = static_cast<double>(current());
  const double step = static_cast<double>(parameters_.ai_rate * kMegabit) * (1 - weight);
  const double next = step + rate * (1 - parameters_.patched_beta * weight * error);
  set_rate(std::max(static_cast<uint64_t>(std::llround(std::max(next, 0.0))), min_rate()));
}

void Timely::advance(Instant now) {
  while (doubles_at() <= now) {
    on_doubled();
    set_rate(2 * rate_);
  }
}

void Timely::handle_rtt(Duration rtt, Instant now) {
  const bool first = previous_rtt_.ns == 0;
  // Only a packet that left after the last update tells what effect that update had.
  if (!first && now.ns - rtt.ns < updated_at_.ns) return;
  const auto newest = static_cast<double>(rtt.ns);
  const double step = newest - static_cast<double>(previous_rtt_.ns);
  previous_rtt_ = rtt;
  updated_at_ = now;
  if (first) return;
  difference_ns_ = (1 - parameters_.ewma) * difference_ns_ + parameters_.ewma * step;
  if (rtt < microseconds(parameters_.t_low)) {
    if (!parameters_.hai_below_t_low) increases_ = 0;
    increase(parameters_.hai_below_t_low);
  } else if (rtt > microseconds(parameters_.t_high)) {
    decrease(1 - parameters_.beta * (1 - 1000.0 * parameters_.t_high / newest));
  } else if (parameters_.patched) {
    follow_delay(newest);
  } else if (difference_ns_ <= 0) {
    increase(true);
  } else {
    decrease(1 - parameters_.beta * gradient());
  }
}

namespace {

using Field = CongestionParameter::Field;

constexpr CongestionParameter kParameters[] = {
    {"timely_ewma", 0, 1, [](CongestionConfig& c) -> Field { return &c.timely.ewma; }},
    {"timely_beta", 0, 1, [](CongestionConfig& c) -> Field { return &c.timely.beta; }},
    {"timely_t_low", 0, kMostMicroseconds, [](CongestionConfig& c) -> Field { return &c.timely.t_low; }},
    {"timely_t_high", 1, kMostMicroseconds, [](CongestionConfig& c) -> Field { return &c.timely.t_high; }},
    {"timely_min_rtt", 1, kMostMicroseconds, [](CongestionConfig& c) -> Field { return &c.timely.min_rtt; }},
    {"timely_ai_rate", 1, kMostMegabits, [](CongestionConfig& c) -> Field { return &c.timely.ai_rate; }},
    {"timely_hai_rate", 1, kMostMegabits, [](CongestionConfig& c) -> Field { return &c.timely.hai_rate; }},
    {"timely_hai_threshold", 1, 1000, [](CongestionConfig& c) -> Field { return &c.timely.hai_threshold; }},
    {"timely_patched", 0, 1, [](CongestionConfig& c) -> Field { return &c.timely.patched; }},
    {"timely_patched_beta", 0, 1, [](CongestionConfig& c) -> Field { return &c.timely.patched_beta; }},
    {"timely_hai_below_t_low", 0, 1, [](CongestionConfig& c) -> Field { return &c.timely.hai_below_t_low; }},
};

}  // namespace

std::span<const CongestionParameter> Timely::parameters() { return kParameters; }

}  // namespace uroce
