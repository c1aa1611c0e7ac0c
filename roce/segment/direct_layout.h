// What a member shows of the memory that others may copy to and from without frames: a table in its base memory, which
// its peers map read-only (layout.h).
//
// A slot is one cache line. Its owner makes `sequence` odd while it changes the slot, so that a reader knows what
// belongs together. Where a key may stand follows from the key: in one of kDirectProbes slots behind each other. What
// finds no room there is not shown.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/direct_copy.h"

namespace uroce::segment {

inline constexpr size_t kDirectWords = 7;
using DirectWords = std::array<uint64_t, kDirectWords>;

struct alignas(64) DirectSlot {
  std::atomic<uint32_t> sequence;
  std::atomic<uint32_t> next_psn;  // of a queue pair: changes by itself, with every packet
  std::atomic<uint64_t> words[kDirectWords];
};
static_assert(sizeof(DirectSlot) == 64);

inline constexpr uint32_t kDirectSlots = 1024;
inline constexpr uint32_t kDirectProbes = 8;

struct DirectTable {
  std::atomic<uint32_t> open;  // 0: nothing may be copied now
  // Who can read these bytes at that address of a process has found this member.
  std::atomic<uint64_t> proof_at;
  std::atomic<uint64_t> proof[2];
  DirectSlot regions[kDirectSlots];
  DirectSlot queue_pairs[kDirectSlots];
};

/// The first slot in which a key may stand; the others follow, round the end.
constexpr uint32_t direct_slot_of(uint32_t key) { return (key * 2654435761u) >> 22; }
static_assert(kDirectSlots == 1u << (32 - 22));

// The first word of either has the key in its upper half; 0: the slot is free.

inline DirectWords encode(const ShownRegion& region) {
  return {uint64_t{region.key} << 32 | region.pd, region.access, region.iova, region.length, region.memory, 0, 0};
}

inline ShownRegion decode_region(const DirectWords& words) {
  return {static_cast<uint32_t>(words[0] >> 32),
          static_cast<uint32_t>(words[0]),
          static_cast<uint32_t>(words[1]),
          words[2],
          words[3],
          words[4]};
}

inline DirectWords encode(const ShownQueuePair& qp) {
  const auto own = std::bit_cast<std::array<uint64_t, 2>>(qp.own.bytes);
  const auto peer = std::bit_cast<std::array<uint64_t, 2>>(qp.peer.bytes);
  return {uint64_t{qp.qpn} << 32 | qp.dest_qpn,
          uint64_t{qp.pd} << 32 | qp.access,
          uint64_t{qp.reads} << 16 | qp.vlan_id,
          own[0],
          own[1],
          peer[0],
          peer[1]};
}

inline ShownQueuePair decode_queue_pair(const DirectWords& words) {
  using Bytes = std::array<uint8_t, 16>;
  return {static_cast<uint32_t>(words[0] >> 32),
          static_cast<uint32_t>(words[0]),
          static_cast<uint32_t>(words[1] >> 32),
          static_cast<uint32_t>(words[1]),
          static_cast<uint32_t>(words[2] >> 16),
          static_cast<uint16_t>(words[2]),
          IpAddress{std::bit_cast<Bytes>(std::array{words[3], words[4]})},
          IpAddress{std::bit_cast<Bytes>(std::array{words[5], words[6]})}};
}

inline uint32_t key_of(const DirectSlot& slot) {
  return static_cast<uint32_t>(slot.words[0].load(std::memory_order_relaxed) >> 32);
}

/// Changes a slot of our own.
inline void fill(DirectSlot& slot, const DirectWords& words) {
  const uint32_t sequence = slot.sequence.load(std::memory_order_relaxed);
  slot.sequence.store(sequence + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (size_t i = 0; i < words.size(); i++) slot.words[i].store(words[i], std::memory_order_relaxed);
  slot.sequence.store(sequence + 2, std::memory_order_release);
}

/// A peer's slot with this key, copied; `place` is where it stands. Nothing when there is none, or when its owner is
/// changing it.
inline std::optional<DirectWords> find_slot(const DirectSlot (&slots)[kDirectSlots], uint32_t key,
                                            const DirectSlot*& place) {
  for (uint32_t i = 0; i < kDirectProbes; i++) {
    const DirectSlot& slot = slots[(direct_slot_of(key) + i) % kDirectSlots];
    if (key_of(slot) != key) continue;
    const uint32_t sequence = slot.sequence.load(std::memory_order_acquire);
    DirectWords words;
    for (size_t w = 0; w < words.size(); w++) words[w] = slot.words[w].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    const bool whole = (sequence & 1) == 0 && slot.sequence.load(std::memory_order_relaxed) == sequence;
    if (!whole || words[0] >> 32 != key) return std::nullopt;
    place = &slot;
    return words;
  }
  return std::nullopt;
}

/// Whether there is one, as far as a look tells.
inline bool has_slot(const DirectSlot (&slots)[kDirectSlots], uint32_t key) {
  for (uint32_t i = 0; i < kDirectProbes; i++) {
    if (key_of(slots[(direct_slot_of(key) + i) % kDirectSlots]) == key) return true;
  }
  return false;
}

/// A slot of our own: that with this key, or with `key` 0 a free one for `place_of`; nullptr when there is none.
inline DirectSlot* own_slot(DirectSlot (&slots)[kDirectSlots], uint32_t place_of, uint32_t key) {
  for (uint32_t i = 0; i < kDirectProbes; i++) {
    DirectSlot& slot = slots[(direct_slot_of(place_of) + i) % kDirectSlots];
    if (key_of(slot) == key) return &slot;
  }
  return nullptr;
}

}  // namespace uroce::segment
