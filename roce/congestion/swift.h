// Control by a target delay, in the manner of Swift (Kumar et al., SIGCOMM 2020): below the target the window grows by
// a packet per round trip; above the target it shrinks in proportion to the excess, once per round trip. A window below
// one packet is kept as a rate. Flows with small windows get a larger target (flow scaling), which is what makes many
// flows fair.
//
// Unlike Swift it has no time stamps from the NIC, so the delay includes the peer's own; it does not scale by hops; and
// it always paces, because only one packet in several asks for an answer and nothing else would space the others.
#pragma once

#include <span>

#include "congestion/congestion_control.h"

namespace uroce {

struct CongestionParameter;

class Swift final : public CongestionControl {
 public:
  /// Its settings by name.
  static std::span<const CongestionParameter> parameters();
  explicit Swift(const CongestionConfig& config) : CongestionControl(config), parameters_(config.swift) {}

  void on_loss(Instant now) override;
  void advance(Instant now) override;
  Instant next_change() const override { return doubles_at(); }
  double window_packets() const { return window_; }
  Duration target() const;

 private:
  void restart() override;
  void handle_rtt(Duration rtt, Instant now) override;
  uint64_t own_window_bytes() const override;
  void decrease(double factor, Instant now);
  void apply();

  const SwiftConfig& parameters_;
  double window_ = 0;  // packets; 0: not known yet
  double smoothed_ns_ = 0;
  Instant updated_at_{0};
  Instant decreased_at_{0};
};

}  // namespace uroce
