#include "memif/rings.h"

#include <atomic>
#include <cstring>

#include "base/check.h"

namespace uroce::memif {
namespace {

template <typename T>
std::atomic_ref<T> shared(uint8_t* base, uint64_t at) {
  return std::atomic_ref<T>(*reinterpret_cast<T*>(__builtin_assume_aligned(base + at, alignof(T))));
}

/// Returns the start of the ring, and makes it empty; nullptr when there is no ring.
uint8_t* open_ring(const Memory& memory, const RingPlace& place) {
  uint8_t* const base = memory.at(place.region, place.offset, place.bytes());
  if (base == nullptr || shared<uint32_t>(base, kRingCookieAt).load(std::memory_order_relaxed) != kCookie) {
    return nullptr;
  }
  shared<uint16_t>(base, kRingHeadAt).store(0, std::memory_order_relaxed);
  shared<uint16_t>(base, kRingTailAt).store(0, std::memory_order_release);
  return base;
}

uint64_t slot_at(uint16_t slot, uint16_t slots) {
  return kRingSlotsAt + uint64_t{kDescriptorBytes} * (slot & (slots - 1u));
}

Descriptor read_slot(uint8_t* base, uint64_t at) {
  const uint64_t low = shared<uint64_t>(base, at).load(std::memory_order_relaxed);
  const uint64_t high = shared<uint64_t>(base, at + 8).load(std::memory_order_relaxed);
  return {static_cast<uint16_t>(low), static_cast<uint16_t>(low >> 16), static_cast<uint32_t>(low >> 32),
          static_cast<uint32_t>(high)};
}

void write_slot(uint8_t* base, uint64_t at, uint16_t flags, uint32_t length) {
  shared<uint16_t>(base, at).store(flags, std::memory_order_relaxed);
  shared<uint32_t>(base, at + 4).store(length, std::memory_order_relaxed);
}

/// Reads the position of the peer. False when that position is impossible.
bool read_head(uint8_t* base, uint16_t next, uint16_t slots, uint16_t& head) {
  const uint16_t read = shared<uint16_t>(base, kRingHeadAt).load(std::memory_order_acquire);
  if (static_cast<uint16_t>(read - next) > slots) return false;
  head = read;
  return true;
}

}  // namespace

bool InRing::open(const Memory& memory, const RingPlace& place) {
  base_ = open_ring(memory, place);
  slots_ = static_cast<uint16_t>(1u << place.log2_slots);
  next_ = head_ = 0;
  if (base_ == nullptr) return false;
  shared<uint16_t>(base_, kRingFlagsAt).store(kRingPolled, std::memory_order_relaxed);
  return true;
}

bool InRing::begin() { return read_head(base_, next_, slots_, head_); }

InRing::Taken InRing::take(const Memory& memory, uint8_t* out, uint32_t room, uint32_t& bytes) {
  ensure(static_cast<uint16_t>(head_ - next_) <= slots_, "the peer's position was checked");
  if (next_ == head_) return Taken::kNothing;
  uint32_t filled = 0;
  bool fits = true;
  for (bool more = true; more;) {
    if (next_ == head_) return Taken::kBroken;  // the frame continues in a slot that the peer did not fill
    const Descriptor slot = read_slot(base_, slot_at(next_++, slots_));
    const uint8_t* const part = memory.at(slot.region, slot.offset, slot.length);
    if (part == nullptr) return Taken::kBroken;
    fits = fits && slot.length <= room - filled;
    if (fits) {
      std::memcpy(out + filled, part, slot.length);
      filled += slot.length;
    }
    more = (slot.flags & kDescriptorNext) != 0;
  }
  bytes = filled;
  return fits ? Taken::kFrame : Taken::kTooLong;
}

void InRing::finish() { shared<uint16_t>(base_, kRingTailAt).store(next_, std::memory_order_release); }

bool OutRing::open(const Memory& memory, const RingPlace& place) {
  base_ = open_ring(memory, place);
  slots_ = static_cast<uint16_t>(1u << place.log2_slots);
  next_ = head_ = 0;
  return base_ != nullptr;
}

bool OutRing::begin() { return read_head(base_, next_, slots_, head_); }

OutRing::Put OutRing::put(const Memory& memory, const uint8_t* frame, uint32_t bytes) {
  ensure(static_cast<uint16_t>(head_ - next_) <= slots_, "the peer's position was checked");
  uint16_t slot = next_;
  for (uint32_t done = 0;;) {
    if (slot == head_) {
      // Nothing was published, so what was written so far has no effect.
      return static_cast<uint16_t>(head_ - next_) == slots_ ? Put::kTooLong : Put::kFull;
    }
    const uint64_t at = slot_at(slot++, slots_);
    const Descriptor room = read_slot(base_, at);
    uint8_t* const part = memory.at(room.region, room.offset, room.length);
    if (part == nullptr) return Put::kBroken;
    const uint32_t count = room.length < bytes - done ? room.length : bytes - done;
    std::memcpy(part, frame + done, count);
    done += count;
    write_slot(base_, at, done == bytes ? 0 : kDescriptorNext, count);
    if (done == bytes) break;
  }
  next_ = slot;
  return Put::kSent;
}

void OutRing::finish() { shared<uint16_t>(base_, kRingTailAt).store(next_, std::memory_order_release); }

}  // namespace uroce::memif
