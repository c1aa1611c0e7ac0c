// TIMELY: rate control by the gradient of round-trip times (Mittal et al., SIGCOMM 2015). One update per round trip.
//
// It computes in floating point, once per round trip, with the same operations on every compiler.
#pragma once

#include <span>

#include "congestion/congestion_control.h"

namespace uroce {

struct CongestionParameter;

class Timely final : public CongestionControl {
 public:
  /// Its settings by name.
  static std::span<const CongestionParameter> parameters();
  explicit Timely(const CongestionConfig& config) : CongestionControl(config), parameters_(config.timely) {}

  void advance(Instant now) override;
  Instant next_change() const override { return doubles_at(); }
  double gradient() const { return difference_ns_ / min_rtt_ns(); }

 private:
  void restart() override;
  void handle_rtt(Duration rtt, Instant now) override;
  void increase(bool counts);
  void decrease(double factor);
  void follow_delay(double rtt_ns);
  double min_rtt_ns() const { return 1000.0 * std::max(parameters_.min_rtt, 1u); }
  uint64_t min_rate() const { return std::min(config_.dcqcn.rpg_min_rate * kMegabit, max_rate()); }
  uint64_t current() const { return limited_ ? rate_ : max_rate(); }

  const TimelyConfig& parameters_;
  Instant updated_at_{0};
  Duration previous_rtt_{0};  // 0: none yet
  double difference_ns_ = 0;  // smoothed
  uint32_t increases_ = 0;    // in a row
};

}  // namespace uroce
