// A token bucket: how fast frames may leave.
//
// Exact at any rate: what a frame costs is kept in nanoseconds and a remainder, so that a million frames take what a
// million frames should. With a burst of zero it is a cable: the next frame may start when the previous one is out.
// A polled loop gives it a burst of a few microseconds' worth, so that being late for one poll does not cost rate.
#pragma once

#include <cstdint>

#include "fabric/frame.h"
#include "uroce/time.h"

namespace uroce::fabric {

class RateCap {
 public:
  /// 0 bits per second: no limit. Bytes on the wire are counted, that is kWireOverheadBytes more than a frame has.
  explicit RateCap(uint64_t bits_per_second = 0, uint32_t burst_bytes = 0);

  bool may_send(Instant now) const { return now >= ready_at(); }
  /// When may_send becomes true; in the past, when it is already.
  Instant ready_at() const { return {busy_until_.ns - burst_.ns}; }
  /// A frame of `frame_bytes` leaves at `now`.
  void on_sent(uint32_t frame_bytes, Instant now);
  /// When everything that was sent is out at the capped rate. With burst 0: the end of the frame just sent.
  Instant busy_until() const { return busy_until_; }
  uint64_t bits_per_second() const { return bits_per_second_; }

 private:
  uint64_t bits_per_second_;
  Duration burst_;
  Instant busy_until_{INT64_MIN / 2};
  uint64_t remainder_ = 0;  // of a nanosecond, in 1 / bits_per_second_
};

}  // namespace uroce::fabric
