// Decides when to ask whether the end of what was sent has arrived.
//
// Nothing comes behind the last packet of a burst that would show it to be lost. So when the connection has been silent
// for a while, one packet is sent again: in turn the last of those that may be lost, whose answer says which of the
// others are missing, and the first, in case the peer threw the others away. Each probe without an answer doubles the
// wait for the next; the ACK timer, which ends the QP, is not affected.
#pragma once

#include <cstdint>

#include "transport/rtt_sampler.h"
#include "uroce/time.h"

namespace uroce {

class TailProbe {
 public:
  enum class Packet : uint8_t { kNone, kLast, kFirst };

  /// `ack_delay` is how long a peer may delay an ACK.
  explicit TailProbe(Duration ack_delay) : ack_delay_(ack_delay) {}

  /// Nothing is waited for, and no probe was ever sent.
  void reset();
  /// The peer got further: the next wait is a short one again.
  void on_progress() { sent_ = 0; }
  /// Something was sent, or came from the peer: the silence begins anew.
  void on_activity(Instant now) { active_at_ = now; }
  /// Something waits for an answer. The wait begins now, unless it has begun already or no round trip time is known.
  void start(const RttSampler& rtt, Instant now) {
    if (due_ == Instant::never() && rtt.known()) due_ = now + silence(rtt);
  }
  /// Nothing waits for an answer.
  void stop() { due_ = Instant::never(); }

  /// When to call `expire`.
  Instant next_timeout() const { return due_; }
  /// True when the silence was long enough and a probe is to be sent now. When `waiting` is false, nothing waits for an
  /// answer: no probe is sent, and the wait is over.
  bool expire(bool waiting, const RttSampler& rtt, Instant now);

  bool wants_transmit() const { return packet_ != Packet::kNone; }
  /// Which packet to send as the probe. Afterwards the probe is no longer wanted.
  Packet take();

 private:
  Duration silence(const RttSampler& rtt) const;

  Duration ack_delay_;
  Packet packet_ = Packet::kNone;  // to be sent
  uint8_t sent_ = 0;               // since the peer last got further
  Instant active_at_{0};
  Instant due_ = Instant::never();
};

}  // namespace uroce
