// The card's PTP hardware clock: time of day as seconds and nanoseconds.
#pragma once

#include <cstdint>

#include "pmd/hw/bus.h"

namespace mqnic {

inline constexpr uint32_t kNanosecondsPerSecond = 1'000'000'000;

struct TimeOfDay {
  uint64_t seconds = 0;  // 48 bits
  uint32_t nanoseconds = 0;
};

/// For one thread at a time, because reading the first word of the snapshot latches the others.
class PtpClock {
 public:
  PtpClock(Bus& bus, uint32_t block) : bus_(bus), block_(block) {}

  TimeOfDay time() const;
  /// True while the card has not applied the last `set_time` or `adjust`: another would be lost, or be applied before
  /// it.
  bool pending() const;
  void set_time(const TimeOfDay& time);
  /// Moves the clock: by less than half a second in one step of the card, or by reading and setting it.
  void adjust(int64_t nanoseconds);

 private:
  Bus& bus_;
  uint32_t block_;
};

/// Completions contain 16 bits of the seconds. Returns the seconds with these bits that are nearest to
/// `reference_seconds`.
constexpr uint64_t extend_seconds(uint16_t seconds, uint64_t reference_seconds) {
  const auto difference = static_cast<int16_t>(static_cast<uint16_t>(seconds - reference_seconds));
  return reference_seconds + static_cast<uint64_t>(int64_t{difference});
}
static_assert(extend_seconds(5, 0x10003) == 0x10005 && extend_seconds(0xfffe, 0x10003) == 0xfffe);

}  // namespace mqnic
