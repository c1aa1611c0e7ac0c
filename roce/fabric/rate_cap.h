// A token bucket: how fast frames may leave.
//
// It is exact at any rate: the time of a frame is kept in nanoseconds and a remainder, so that rounding errors do not
// add up. With a burst of zero it behaves like a cable: the next frame may start when the previous one is out. A polled
// loop sets a burst of a few microseconds' worth, so that a late poll does not lower the rate.
#pragma once

#include <cstdint>

#include "fabric/frame.h"
#include "uroce/time.h"

namespace uroce::fabric {

class RateCap {
 public:
  /// 0 bits per second means no limit. Bytes on the wire are counted, that is, kWireOverheadBytes more than the frame
  /// has.
  explicit RateCap(uint64_t bits_per_second = 0, uint32_t burst_bytes = 0);

  bool may_send(Instant now) const { return now >= ready_at(); }
  /// When may_send becomes true; an instant in the past when it is true already.
  Instant ready_at() const { return {busy_until_.ns - burst_.ns}; }
  /// A frame of `frame_bytes` leaves at `now`.
  void on_sent(uint32_t frame_bytes, Instant now);
  /// When everything that was sent is out at the capped rate. With burst 0 this is the end of the frame just sent.
  Instant busy_until() const { return busy_until_; }
  uint64_t bits_per_second() const { return bits_per_second_; }

 private:
  uint64_t bits_per_second_;
  Duration burst_;
  Instant busy_until_{INT64_MIN / 2};
  uint64_t remainder_ = 0;  // the fraction of a nanosecond, in units of 1 / bits_per_second_
};

}  // namespace uroce::fabric
