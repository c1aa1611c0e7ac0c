// How much memory this process may keep from being moved (ulimit -l), which net_af_packet needs for its rings.
#pragma once

#include <cstdint>

namespace uroce {

inline constexpr uint32_t kSlotsMost = 1024;
inline constexpr uint32_t kSlotsLeast = 64;

/// How many slots of so many bytes the kernel would lock now: a power of two from kSlotsLeast to kSlotsMost, or 0. The
/// kernel is asked, since the right to lock without limit depends on user namespaces.
uint32_t lockable_slots(uint32_t slot_bytes);

}  // namespace uroce
