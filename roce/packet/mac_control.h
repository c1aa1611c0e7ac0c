// Pause frames: IEEE 802.3x, which stops everything, and IEEE 802.1Qbb (priority-based flow control, PFC), which stops
// single priorities.
//
// Both are MAC control frames (ethertype 0x8808) to the address 01:80:c2:00:00:01, which no bridge forwards: they are
// for the neighbour at the other end of the cable. A pause is counted in quanta of 512 bit times of that cable and
// replaces what was left of an earlier one; zero quanta end it. The frames are padded to Ethernet's 60 bytes and never
// tagged.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "uroce/address.h"
#include "uroce/time.h"

namespace uroce {

inline constexpr uint16_t kEtherMacControl = 0x8808;
inline constexpr MacAddress kPauseMac{{0x01, 0x80, 0xc2, 0x00, 0x00, 0x01}};
inline constexpr uint32_t kPauseFrameBytes = 60;
inline constexpr uint16_t kMaxPauseQuanta = 0xFFFF;
inline constexpr unsigned kPriorities = 8;

constexpr uint8_t priority_bit(unsigned priority) { return static_cast<uint8_t>(1u << priority); }

/// What a pause frame says: for each priority in `priorities` (bit 0 is priority 0), how long it is to be silent.
struct Pause {
  MacAddress src_mac;
  bool per_priority = true;  // false: 802.3x; `priorities` is then 0xff and all quanta are the same
  uint8_t priorities = 0;
  std::array<uint16_t, kPriorities> quanta{};
};

/// True when the frame's ethertype is that of MAC control frames, whatever they contain.
bool is_mac_control(std::span<const uint8_t> frame);

/// Returns nothing when the frame is not a pause frame of either kind, is too short, or is not addressed to kPauseMac.
std::optional<Pause> decode_pause(std::span<const uint8_t> frame);

/// Writes kPauseFrameBytes bytes at `out` and returns that number, or 0 when they do not fit.
uint32_t encode_pause(std::span<uint8_t> out, const Pause& pause);

/// How long `quanta` last at this speed, rounded up to whole nanoseconds.
Duration pause_time(uint16_t quanta, uint64_t bits_per_second);

/// Remembers until when a sender has to keep each priority silent. It needs no timer: it is asked before sending.
class PauseClock {
 public:
  void on_pause(const Pause& pause, uint64_t bits_per_second, Instant now);
  /// The priorities that are paused at `now`, as bits. Time must not go back between calls.
  uint8_t paused(Instant now) {
    if (mask_ != 0 && now >= next_) expire(now);
    return mask_;
  }
  /// When the first of the paused priorities becomes free again by itself; Instant::never() when none is paused.
  Instant next_resume() const { return mask_ == 0 ? Instant::never() : next_; }

 private:
  void expire(Instant now);

  uint8_t mask_ = 0;
  Instant next_ = Instant::never();
  std::array<Instant, kPriorities> until_{};
};

}  // namespace uroce
