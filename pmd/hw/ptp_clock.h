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

/// One user at a time: a group of registers is latched by its first word.
class PtpClock {
 public:
  PtpClock(Bus& bus, uint32_t block) : bus_(bus), block_(block) {}

  TimeOfDay time() const;
  void set_time(const TimeOfDay& time);
  /// Moves the clock; at once if it is far, within some time if it is near (the card spreads it).
  void adjust(int64_t nanoseconds);

 private:
  Bus& bus_;
  uint32_t block_;
};

/// Completions carry 16 bits of the seconds: the time with these bits that is nearest to `reference_seconds`.
constexpr uint64_t extend_seconds(uint16_t seconds, uint64_t reference_seconds) {
  const auto difference = static_cast<int16_t>(static_cast<uint16_t>(seconds - reference_seconds));
  return reference_seconds + static_cast<uint64_t>(int64_t{difference});
}
static_assert(extend_seconds(5, 0x10003) == 0x10005 && extend_seconds(0xfffe, 0x10003) == 0xfffe);

}  // namespace mqnic
