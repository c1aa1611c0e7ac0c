// How fast one QP may send: the interface of congestion control.
//
// It does no I/O and has no timers of its own: `advance` works out what has happened since the last call. A sender
// makes these calls, and only while `limited()`:
//
//   advance(now); ... rate_bits_per_second(); ... on_sent(bytes, now);
//
// A QP that is not limited needs no call per packet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "congestion/config.h"
#include "uroce/time.h"

namespace uroce {

class CongestionControl {
 public:
  explicit CongestionControl(const CongestionConfig& config) : config_(config) {}
  virtual ~CongestionControl() = default;
  CongestionControl(const CongestionControl&) = delete;
  CongestionControl& operator=(const CongestionControl&) = delete;

  /// Begins anew for a connection with packets of `mtu` bytes.
  void start(uint32_t mtu);

  // What happens to the connection.
  virtual void on_sent(uint32_t bytes, Instant now);
  virtual void on_cnp(Instant now);
  /// An answer came `rtt` after its request left.
  void on_rtt(Duration rtt, Instant now);
  /// Something was lost and has to be sent again.
  virtual void on_loss(Instant now);
  /// Brings the rate up to date: as time passes, rates rise.
  virtual void advance(Instant now);

  // How fast it may send.
  bool limited() const { return limited_; }
  uint64_t rate_bits_per_second() const { return limited_ ? rate_ : 0; }  // 0: not limited
  /// Most bytes in flight; 0: not limited.
  uint64_t window_bytes() const;
  /// The next instant at which the rate may change by itself; Instant::never() while it is not limited.
  virtual Instant next_change() const { return Instant::never(); }
  /// Does this algorithm listen to CNPs?
  virtual bool takes_cnps() const { return false; }
  /// DCQCN's estimate of congestion, 0 to 1. Only for display.
  virtual double alpha() const { return 0; }

 protected:
  virtual void restart() = 0;
  virtual void handle_rtt(Duration rtt, Instant now);
  virtual uint64_t own_window_bytes() const { return 0; }

  /// When a rate that comes from round trips has been without news for so long that it doubles; Instant::never() while
  /// it is not limited. A queue pair that only serves READs measures no round trips.
  Instant doubles_at() const { return limited_ ? heard_at_ + patience() : Instant::never(); }
  /// It does: the time begins anew.
  void on_doubled() { heard_at_ = doubles_at(); }

  uint64_t max_rate() const;
  /// Sets the rate. A rate at or above the highest means that the QP is not limited.
  void set_rate(uint64_t bits_per_second);

  const CongestionConfig& config_;
  uint64_t rate_ = 0;  // meaningful while limited_
  bool limited_ = false;
  uint32_t mtu_ = 1024;
  Duration shortest_rtt_{0};  // 0: none measured

 private:
  Duration patience() const;

  Instant heard_at_{0};  // the latest round trip, or loss
  Duration latest_rtt_{0};
};

/// nullptr for kNone. `config` outlives the result; it may be changed while the result lives.
std::unique_ptr<CongestionControl> make_congestion_control(const CongestionConfig& config);

}  // namespace uroce
