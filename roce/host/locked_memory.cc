#include "host/locked_memory.h"

#include <sys/mman.h>

#include <cstddef>

namespace uroce {

uint32_t lockable_slots(uint32_t slot_bytes) {
  for (uint32_t slots = kSlotsMost; slots >= kSlotsLeast; slots /= 2) {
    const size_t bytes = size_t{slots} * slot_bytes;
    // PROT_NONE: no page is touched, yet the kernel counts them all against the limit.
    void* const room = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
    if (room == MAP_FAILED) continue;
    munmap(room, bytes);
    return slots;
  }
  return 0;
}

}  // namespace uroce
