// The processor's time stamp counter as time of day. All programs of a machine have the same counter, and each measures
// its rate for itself, not quite alike: so what they write down is the counter, and it is made into time in one place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "uroce/time.h"

namespace uroce::launcher {

class TickClock {
 public:
  struct Reading {
    uint64_t ticks = 0;
    Instant time{0};  // since 1970
  };

  /// Both, at the same moment.
  static Reading read();

  /// To be called often: between two readings the counter goes evenly. Those that are very close are left out.
  void add(const Reading& reading);
  /// Never goes back when `ticks` do not, as long as nobody sets the clock. Before the first reading and behind the
  /// last one, as if it went on like that.
  Instant time_of(uint64_t ticks) const;
  /// How many ticks that is; 0 before there are two readings.
  uint64_t ticks_in(Duration duration) const;

 private:
  static constexpr size_t kReadings = 64;
  std::deque<Reading> readings_;
};

}  // namespace uroce::launcher
