// What lies in the memory that members of a segment share.
//
// Every page has one writer. A member writes its *base* (how it wants to be woken, and the pool of frames that it
// sends) and, for every peer, its half of a *lane*: a ring of slots towards that peer, and how far it has read the
// peer's ring. Its peers map both read-only; the kernel refuses them anything else, because both are sealed before they
// are passed on.
//
// A slot is two cache lines. A short frame lies in the slot itself, behind the mark that says that it is there: up to
// 56 bytes move one line from core to core, up to 120 bytes two that lie side by side. When its Ethernet header is that
// of the previous frame in the ring, the slot has only what follows the header; so an ACK over IPv4 is one line. A long
// frame stays where the sender's engine built it, in the pool, and the slot says where.
//
// Whatever is read from here was written by another process: it is read once, and the copy is checked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "packet/network_headers.h"
#include "segment/direct_layout.h"

namespace uroce::segment {

inline constexpr uint32_t kLine = 64;
inline constexpr uint32_t kPage = 4096;

inline constexpr uint32_t kSlots = 256;
inline constexpr uint32_t kSlotBytes = 2 * kLine;
inline constexpr uint32_t kInlineBytes = kSlotBytes - sizeof(uint64_t);

/// A frame with RoCE MTU 4096 and every header, and a little more; a whole number of lines that is no power of two, so
/// that the beginnings of frames do not compete for the same sets of a cache.
inline constexpr uint32_t kFrameBytes = 4352;
inline constexpr uint32_t kPoolFrames = 1024;

/// The mark of a slot. Its sequence number tells in which round of the ring the slot was written.
struct Mark {
  uint32_t sequence = 0;  // position in the ring since its beginning, plus one
  uint16_t bytes = 0;
  uint16_t frame = 0;  // number of the frame in the pool plus one, or where the frame lies in the slot
  static constexpr uint16_t kInSlot = 0;
  static constexpr uint16_t kInSlotWithoutHeader = 0xFFFF;
  bool in_slot() const { return frame == kInSlot || frame == kInSlotWithoutHeader; }

  static Mark decode(uint64_t word) {
    return {static_cast<uint32_t>(word >> 32), static_cast<uint16_t>(word >> 16), static_cast<uint16_t>(word)};
  }
  uint64_t encode() const { return uint64_t{sequence} << 32 | uint64_t{bytes} << 16 | frame; }
};

struct Slot {
  std::atomic<uint64_t> mark;
  uint8_t bytes[kInlineBytes];
};
static_assert(sizeof(Slot) == kSlotBytes);

/// A member's half of a lane.
struct LaneMemory {
  alignas(kPage) std::atomic<uint64_t> consumed;  // slots of the peer's ring that this member has read and released
  // For copies without frames (direct_copies.h).
  alignas(kLine) std::atomic<uint32_t> copying;  // odd: this member copies to or from the peer's memory
  std::atomic<uint32_t> admits;                  // 1: this member waits for `copying` of the peer, which may copy
  alignas(kPage) Slot slots[kSlots];
};
static_assert(sizeof(LaneMemory) == kPage + kSlots * kSlotBytes);

/// How a member wants to be woken by whoever sends to it.
enum class WakeWish : uint8_t {
  kNever = 0,      // somebody polls there, or comes by often enough
  kAtOnce = 1,     // nobody does: each frame rings
  kLeftLying = 2,  // its program polls, as far as it knows: who sees that frames are left lying rings
};

/// The word in which a member says how it wants to be woken. Each time that it lies down the word is another one: a
/// sender rings once for each. A value that makes no sense is kNever.
struct Bell {
  static constexpr uint32_t kRings = 4;

  static constexpr uint32_t encode(uint32_t time, WakeWish wish) { return time * kRings + static_cast<uint32_t>(wish); }
  static constexpr bool asks(uint32_t word, WakeWish wish) { return word % kRings == static_cast<uint32_t>(wish); }
};

/// The memory that a member has once, for all its peers.
struct BaseMemory {
  alignas(kPage) std::atomic<uint32_t> bell;
  alignas(kPage) uint8_t frames[kPoolFrames][kFrameBytes];
  alignas(kPage) DirectTable direct;
};
static_assert(sizeof(BaseMemory) ==
              kPage + size_t{kPoolFrames} * kFrameBytes + kPage + 2 * sizeof(DirectTable::regions));
static_assert(kPoolFrames < Mark::kInSlotWithoutHeader);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

}  // namespace uroce::segment
