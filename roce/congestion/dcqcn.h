// DCQCN's reaction point: the sender's rate under CNPs (Zhu et al., "Congestion Control for Large-Scale RDMA
// Deployments", SIGCOMM 2015).
//
// A CNP makes the current rate the target and takes alpha/2 off it; alpha, an estimate of congestion, grows with every
// CNP and decays while there are none. Then a timer and a byte counter raise the rate again: first half of the way to
// the target each time (fast recovery), then the target itself moves up by steps (additive increase), and by larger
// ones once both have counted enough (hyper increase). When the highest rate is reached, the QP is not limited any
// more, and only alpha is remembered.
//
// All arithmetic is in integers, so that a simulation gives the same result with every compiler.
#pragma once

#include <span>

#include "congestion/congestion_control.h"

namespace uroce {

struct CongestionParameter;

class Dcqcn final : public CongestionControl {
 public:
  /// Its settings by name.
  static std::span<const CongestionParameter> parameters();
  explicit Dcqcn(const CongestionConfig& config) : CongestionControl(config), parameters_(config.dcqcn) {}

  void on_sent(uint32_t bytes, Instant now) override;
  void on_cnp(Instant now) override;
  void advance(Instant now) override;
  Instant next_change() const override { return std::min(increase_at_, cut_at_); }
  bool takes_cnps() const override { return true; }
  double alpha() const override { return static_cast<double>(alpha_) / static_cast<double>(kOne); }

  uint64_t target_bits_per_second() const { return target_; }

 private:
  static constexpr uint64_t kOne = uint64_t{1} << 32;  // alpha = 1

  void restart() override;
  void engage();
  void cut(Instant at);
  void plan_cut(Instant now);
  void increase();
  void raise_alpha();
  void lower_alpha();
  void age_alpha(Instant to);
  Duration period(uint32_t us) const { return microseconds(std::max(us, 1u)); }

  const DcqcnConfig& parameters_;
  uint64_t target_ = 0;
  uint64_t alpha_ = 0;
  bool alpha_known_ = false;  // a CNP has come since the start
  bool cnp_in_interval_ = false;
  Instant alpha_at_{0};       // its next update
  uint32_t timer_steps_ = 0;  // increases since the last cut
  uint32_t byte_steps_ = 0;
  uint64_t bytes_ = 0;  // since the last step of the byte counter
  Instant increase_at_ = Instant::never();
  Instant may_cut_at_{0};
  Instant cut_at_ = Instant::never();  // when to cut for a CNP that came too soon after a cut
};

}  // namespace uroce
