#include "congestion/dcqcn.h"

#include "base/check.h"
#include "congestion/algorithms.h"

namespace uroce {

namespace {

/// An alpha below this counts as 0: a cut by it would change a rate of a megabit per second by less than one bit.
constexpr uint64_t kNegligible = 1 << 12;

uint64_t fraction_of(uint64_t value, uint64_t numerator, unsigned shift) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(value) * numerator) >> shift);
}

}  // namespace

void Dcqcn::restart() {
  target_ = alpha_ = 0;
  alpha_known_ = cnp_in_interval_ = false;
  timer_steps_ = byte_steps_ = 0;
  bytes_ = 0;
  increase_at_ = cut_at_ = Instant::never();
  may_cut_at_ = {0};
}

void Dcqcn::raise_alpha() {
  ensure(alpha_ <= kOne, "alpha is a part of one");
  alpha_ += fraction_of(kOne - alpha_, 1024 - parameters_.dce_tcp_g, 10);
}

void Dcqcn::lower_alpha() {
  alpha_ -= fraction_of(alpha_, 1024 - parameters_.dce_tcp_g, 10);
  if (alpha_ < kNegligible) alpha_ = 0;
}

void Dcqcn::age_alpha(Instant to) {
  const Duration interval = period(parameters_.dce_tcp_rtt);
  while (alpha_at_ <= to) {
    if (alpha_ == 0 && !cnp_in_interval_) {
      alpha_at_ = alpha_at_ + interval * ((to - alpha_at_).ns / interval.ns + 1);
      return;
    }
    cnp_in_interval_ ? raise_alpha() : lower_alpha();
    cnp_in_interval_ = false;
    alpha_at_ = alpha_at_ + interval;
  }
}

/// Begins to limit the QP.
void Dcqcn::engage() {
  const uint64_t first = parameters_.rate_to_set_on_first_cnp * kMegabit;
  target_ = rate_ = first != 0 ? std::min(first, max_rate()) : max_rate();
  limited_ = true;
  timer_steps_ = byte_steps_ = 0;
}

void Dcqcn::cut(Instant at) {
  const bool risen = byte_steps_ != 0 || (timer_steps_ != 0 && parameters_.clamp_tgt_rate_after_time_inc);
  if (parameters_.clamp_tgt_rate || risen) target_ = rate_;
  // rpg_gd divides alpha in 1024ths by 2^rpg_gd. alpha_ is in units of 2^-32: 32 - 10 = 22.
  const uint64_t reduction = fraction_of(rate_, alpha_, 22 + parameters_.rpg_gd);
  const uint64_t left = fraction_of(rate_, parameters_.rpg_min_dec_fac, 0) / 100;
  const uint64_t lowest = std::min(parameters_.rpg_min_rate * kMegabit, max_rate());
  rate_ = std::max({rate_ - std::min(rate_, reduction), left, lowest});
  timer_steps_ = byte_steps_ = 0;
  bytes_ = 0;
  increase_at_ = at + period(parameters_.rpg_time_reset);
  may_cut_at_ = at + microseconds(parameters_.rate_reduce_monitor_period);
  cut_at_ = Instant::never();
}

/// Plans a cut for the end of the current period. Periods follow each other without a pause from the first CNP on.
void Dcqcn::plan_cut(Instant now) {
  if (cut_at_ != Instant::never()) return;
  const Duration length = period(parameters_.rate_reduce_monitor_period);
  if (may_cut_at_.ns == 0) may_cut_at_ = now;
  if (may_cut_at_ <= now) may_cut_at_ = may_cut_at_ + length * ((now - may_cut_at_).ns / length.ns + 1);
  cut_at_ = may_cut_at_;
}

void Dcqcn::on_cnp(Instant now) {
  advance(now);
  const bool first = !limited_;
  if (first) engage();
  if (!alpha_known_) {
    alpha_known_ = true;
    alpha_ = uint64_t{parameters_.initial_alpha_value} << 22;
    alpha_at_ = now + period(parameters_.dce_tcp_rtt);
  } else {
    age_alpha(now);
  }
  if (first && parameters_.rate_to_set_on_first_cnp != 0) {
    increase_at_ = now + period(parameters_.rpg_time_reset);
    may_cut_at_ = now + microseconds(parameters_.rate_reduce_monitor_period);
  } else if (parameters_.cut_by_interval) {
    plan_cut(now);
  } else if (may_cut_at_ <= now) {
    cut(now);
  } else {
    cut_at_ = may_cut_at_;
  }
  if (parameters_.alpha_by_interval) {
    cnp_in_interval_ = true;
  } else {
    raise_alpha();
    alpha_at_ = now + period(parameters_.dce_tcp_rtt);
  }
}

/// One step of the timer or of the byte counter; the caller counts it.
void Dcqcn::increase() {
  const bool counts_bytes = parameters_.rpg_byte_reset != 0;
  const uint32_t most = std::max(timer_steps_, byte_steps_);
  const uint32_t least = counts_bytes ? std::min(timer_steps_, byte_steps_) : timer_steps_;
  if (least > parameters_.rpg_threshold) {
    target_ += parameters_.rpg_hai_rate * kMegabit;
  } else if (most >= parameters_.rpg_threshold) {
    target_ += parameters_.rpg_ai_rate * kMegabit;
  }
  target_ = std::min(target_, max_rate());
  set_rate((target_ + rate_ + 1) / 2);
  if (limited_) return;
  increase_at_ = cut_at_ = Instant::never();
}

void Dcqcn::advance(Instant now) {
  while (next_change() <= now) {
    if (cut_at_ <= increase_at_) {
      age_alpha(cut_at_);
      cut(cut_at_);
    } else {
      increase_at_ = increase_at_ + period(parameters_.rpg_time_reset);
      increase();
      timer_steps_++;
    }
  }
}

void Dcqcn::on_sent(uint32_t bytes, Instant now) {
  advance(now);
  if (!limited_ || parameters_.rpg_byte_reset == 0) return;
  bytes_ += bytes;
  if (bytes_ < parameters_.rpg_byte_reset) return;
  bytes_ -= parameters_.rpg_byte_reset;
  increase();
  byte_steps_++;
}

namespace {

using Field = CongestionParameter::Field;

constexpr CongestionParameter kParameters[] = {
    {"dce_tcp_g", 0, 1023, [](CongestionConfig& c) -> Field { return &c.dcqcn.dce_tcp_g; }},
    {"dce_tcp_rtt", 1, kMostMicroseconds, [](CongestionConfig& c) -> Field { return &c.dcqcn.dce_tcp_rtt; }},
    {"initial_alpha_value", 0, 1024, [](CongestionConfig& c) -> Field { return &c.dcqcn.initial_alpha_value; }},
    {"alpha_by_interval", 0, 1, [](CongestionConfig& c) -> Field { return &c.dcqcn.alpha_by_interval; }},
    {"rpg_gd", 0, 15, [](CongestionConfig& c) -> Field { return &c.dcqcn.rpg_gd; }},
    {"rpg_min_dec_fac", 1, 100, [](CongestionConfig& c) -> Field { return &c.dcqcn.rpg_min_dec_fac; }},
    {"rate_reduce_monitor_period", 0, kMostMicroseconds,
     [](CongestionConfig& c) -> Field { return &c.dcqcn.rate_reduce_monitor_period; }},
    {"cut_by_interval", 0, 1, [](CongestionConfig& c) -> Field { return &c.dcqcn.cut_by_interval; }},
    {"rpg_time_reset", 1, kMostMicroseconds, [](CongestionConfig& c) -> Field { return &c.dcqcn.rpg_time_reset; }},
    {"rpg_byte_reset", 0, kMostBytes, [](CongestionConfig& c) -> Field { return &c.dcqcn.rpg_byte_reset; }},
    {"rpg_threshold", 1, 31, [](CongestionConfig& c) -> Field { return &c.dcqcn.rpg_threshold; }},
    {"rpg_ai_rate", 1, kMostMegabits, [](CongestionConfig& c) -> Field { return &c.dcqcn.rpg_ai_rate; }},
    {"rpg_hai_rate", 1, kMostMegabits, [](CongestionConfig& c) -> Field { return &c.dcqcn.rpg_hai_rate; }},
    {"rpg_min_rate", 1, kMostMegabits, [](CongestionConfig& c) -> Field { return &c.dcqcn.rpg_min_rate; }},
    {"rpg_max_rate", 0, kMostMegabits, [](CongestionConfig& c) -> Field { return &c.dcqcn.rpg_max_rate; }},
    {"rate_to_set_on_first_cnp", 0, kMostMegabits,
     [](CongestionConfig& c) -> Field { return &c.dcqcn.rate_to_set_on_first_cnp; }},
    {"clamp_tgt_rate", 0, 1, [](CongestionConfig& c) -> Field { return &c.dcqcn.clamp_tgt_rate; }},
    {"clamp_tgt_rate_after_time_inc", 0, 1,
     [](CongestionConfig& c) -> Field { return &c.dcqcn.clamp_tgt_rate_after_time_inc; }},
};

}  // namespace

std::span<const CongestionParameter> Dcqcn::parameters() { return kParameters; }

}  // namespace uroce
