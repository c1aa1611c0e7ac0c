// Nanoseconds from the processor's time stamp counter.
#pragma once

#include <cstdint>

#include <rte_cycles.h>

#include "uroce/time.h"

namespace uroce {

/// The frequency of the counter. EAL knows it; where there is no EAL, it is measured once, in two milliseconds.
uint64_t tsc_hz();

class TscClock {
 public:
  /// From here on it shows the time. All clocks of a process show the same, since a thread may poll several endpoints.
  void start() {
    static const TscClock first = begun_now();
    *this = first;
  }
  /// The first one starts at one second, so that an Instant of 0 is always in the past.
  Instant now() const {
    const auto ns = (static_cast<unsigned __int128>(rte_rdtsc() - base_) * ns_per_tick_) >> kShift;
    return {static_cast<int64_t>(ns) + 1'000'000'000};
  }

 private:
  static TscClock begun_now() {
    TscClock clock;
    clock.base_ = rte_rdtsc();
    clock.ns_per_tick_ = static_cast<uint64_t>((static_cast<unsigned __int128>(1'000'000'000) << kShift) / tsc_hz());
    return clock;
  }

  static constexpr unsigned kShift = 32;
  uint64_t base_ = 0;
  uint64_t ns_per_tick_ = 0;
};

}  // namespace uroce
