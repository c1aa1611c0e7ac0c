// How fast a QP may send: turns what congestion control says into a pacer and a cap on the packets in flight.
//
// The program may set a limit of its own. Without congestion control and without a limit, all of this does nothing.
// News takes effect in `settle`, which is called at the end of the call that brought it, so that several events at once
// change the rate once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "congestion/congestion_control.h"
#include "congestion/pacer.h"
#include "uroce/time.h"

namespace uroce {

class SendRate {
 public:
  /// `config` outlives this object. `wanted` is false for datagrams, which have no congestion control.
  SendRate(const CongestionConfig& config, bool wanted);

  /// Begins anew for a connection with packets of `mtu` bytes.
  void start(uint32_t mtu);

  /// The program's own limit, which is kept whatever congestion control says; 0: none.
  void set_limit(uint64_t bits_per_second, Instant now) {
    limit_ = bits_per_second;
    follow(now);
  }

  // News.
  /// An answer came `rtt` after its request; without a value, the time could not be measured.
  void on_rtt(std::optional<Duration> rtt, Instant now);
  /// Something has to be sent again.
  void on_loss(Instant now);
  /// The peer says that this QP's packets met congestion. False when there is no congestion control that listens.
  bool on_cnp(Instant now);
  void settle(Instant now) {
    if (news_) follow(now);
  }

  /// Time has passed, which may have changed the rate.
  void follow(Instant now);
  /// A frame with data left.
  void on_sent(uint32_t bytes, Instant now) {
    pacer_.on_sent(bytes, now);
    if (control_) control_->on_sent(bytes, now);
    closed_ = !pacer_.open(now);
  }

  /// True when there is a rate to keep to. While it is false, `on_sent` must not be called.
  bool limited() const { return limited_; }
  /// True when data had to wait at the time of the last call that was told the time.
  bool closed() const { return closed_; }
  /// When to call `follow`, while data waits.
  Instant next_timeout() const;
  /// The most packets that may be in flight.
  uint32_t window_cap() const { return window_cap_; }

  const CongestionControl* control() const { return control_.get(); }  // nullptr: none

 private:
  static constexpr uint64_t kWindowCapMax = 1u << 22;  // packets: a quarter of the PSN circle

  const CongestionConfig& config_;
  std::unique_ptr<CongestionControl> control_;
  Pacer pacer_;
  uint64_t limit_ = 0;
  uint32_t mtu_ = 1024;
  uint32_t window_cap_ = UINT32_MAX;
  bool news_ = false;
  bool limited_ = false;
  bool closed_ = false;
};

// Called for every packet while a rate is kept, hence inline.
inline void SendRate::follow(Instant now) {
  news_ = false;
  uint64_t rate = limit_;
  if (control_) {
    control_->advance(now);
    const uint64_t allowed = control_->rate_bits_per_second();  // 0: any
    if (rate == 0 || (allowed != 0 && allowed < rate)) rate = allowed;
  }
  pacer_.set_rate(rate, config_.burst_bytes, now);
  limited_ = pacer_.limited();
  closed_ = limited_ && !pacer_.open(now);
  const uint64_t window = control_ ? control_->window_bytes() : 0;
  window_cap_ = UINT32_MAX;
  if (window != 0) window_cap_ = static_cast<uint32_t>(std::min((window + mtu_ - 1) / mtu_, kWindowCapMax));
}

}  // namespace uroce
