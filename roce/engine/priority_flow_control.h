// Priority flow control (IEEE 802.1Qbb) in software: silent while the neighbour pauses us, and pausing the neighbour
// when received frames pile up. For ports whose hardware does not do it.
//
// Sans-I/O, without a timer of its own: the engine hands in what it receives, asks `paused` before it sends, and calls
// `on_time` no later than `next_event`. A port has one receive queue for all priorities, so all that we keep lossless
// are paused together.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/pfc_config.h"
#include "packet/mac_control.h"
#include "transport/counters.h"
#include "uroce/address.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce {

class PriorityFlowControl {
 public:
  PriorityFlowControl(const PfcConfig& config, const MacAddress& mac, Counters& counters);

  /// 0: unknown; the last known speed stays.
  void set_link_speed(uint64_t bits_per_second) {
    if (bits_per_second != 0) config_.bits_per_second = bits_per_second;
  }
  bool enabled() const { return config_.lossless != 0 || config_.link_pause; }

  /// True when the frame was one of MAC control: no other part may handle it then.
  bool on_frame(std::span<const uint8_t> frame, Instant now);
  /// The priorities that are paused now, as bits.
  uint8_t paused() const { return static_cast<uint8_t>(paused_ & ~ignored_); }

  /// Reports how many received frames were waiting when the engine looked.
  void on_backlog(uint32_t frames, Instant now);
  /// A pause frame that is due. False: none.
  bool poll_transmit(TxFrame& frame, Instant now);
  bool wants_transmit(Instant now) const { return now >= repeat_at_; }

  Instant next_event() const;
  /// Ends pauses, or finds that they last too long.
  void on_time(Instant now);

  /// How long the neighbour has kept `priority` silent altogether, not counting a pause that goes on.
  Duration paused_for(unsigned priority) const { return paused_for_[priority]; }
  /// ... and counting it.
  Duration paused_for(unsigned priority, Instant now) const {
    const bool paused = (paused_ & priority_bit(priority)) != 0;
    return {paused_for_[priority].ns + (paused ? (now - paused_since_[priority]).ns : 0)};
  }
  bool pausing() const { return pausing_; }
  /// How often the neighbour was told to stop, without the repetitions.
  uint64_t pauses_begun() const { return pauses_begun_; }

 private:
  void account(uint8_t paused, Instant now);
  void run_watchdog(Instant now);

  PfcConfig config_;
  const MacAddress mac_;
  Counters& counters_;

  PauseClock clock_;
  uint8_t paused_ = 0;   // as the neighbour asked
  uint8_t ignored_ = 0;  // by the watchdog
  Instant restore_at_ = Instant::never();
  std::array<Instant, kPriorities> paused_since_{};
  std::array<Duration, kPriorities> paused_for_{};

  bool pausing_ = false;  // the neighbour is paused
  bool changed_ = false;  // ... which it has not been told yet
  uint64_t pauses_begun_ = 0;
  Instant repeat_at_ = Instant::never();  // when the pause is repeated
};

}  // namespace uroce
