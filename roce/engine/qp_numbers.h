// Which numbers the slots of the QP table have, and which slot a number leads to.
//
// A number is a slot and a generation under a keyed permutation (doc/adr/0009). An engine that has all numbers permutes
// their 24 bits. One that shares them has blocks (qpn_blocks.h): 256 slots are a group, a group has a block, and within
// it 12 bits are permuted, four of them generation.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/permutation.h"
#include "base/random.h"
#include "engine/qpn_blocks.h"

namespace uroce {

class QpNumbers {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  static constexpr uint32_t kSlotsMax = 1u << 17;

  /// For up to kSlotsMax `slots`. `blocks` is nullptr when all numbers are ours, else it outlives this.
  QpNumbers(uint32_t slots, RandomSource& random, QpnBlocks* blocks);

  /// Takes one more block, if that gives numbers to more slots. Returns how many slots have numbers now, from the first
  /// on; without blocks, all of them.
  uint32_t extend();

  /// The first block; nothing when all numbers are ours, or none is yet.
  std::optional<uint32_t> first_block() const {
    return shared_ && !shared_->blocks.empty() ? std::optional(shared_->blocks.front()) : std::nullopt;
  }

  /// The number of a slot that has one; another in each of the next 256 generations (128 when there are more than 2^16
  /// slots), or 16 when there are blocks. It may be 0, 1 or 0xFFFFFF, which no QP can have: the caller skips
  /// those.
  uint32_t number(uint32_t slot, uint32_t generation) const;
  /// The slot that has this number; kNone or a slot that does not exist when none has.
  uint32_t slot_of(uint32_t qpn) const {
    if (!shared_) return whole_.backward(qpn) & slot_mask_;
    const uint32_t group = shared_->group(qpn);
    if (group == Shared::kNotOurs) return kNone;
    return group << kGroupBits | (shared_->within.backward(qpn & (kQpnBlockSize - 1)) & kGroupMask);
  }
  /// True when packets for this number are for this engine, whether a QP has it or not.
  bool owns(uint32_t qpn) const { return !shared_ || shared_->group(qpn) != Shared::kNotOurs; }
  /// True when no other engine has our addresses.
  bool owns_all() const { return !shared_; }
  /// True when packets for this number are for another engine with the same addresses.
  bool another_has(uint32_t qpn) const { return shared_ && shared_->source.another_has(qpn); }

 private:
  static constexpr uint32_t kGroupBits = 8;
  static constexpr uint32_t kGroupMask = (1u << kGroupBits) - 1;
  static_assert(kQpsPerBlock == 1u << kGroupBits);

  struct Shared {
    static constexpr uint16_t kNotOurs = 0xFFFF;
    Shared(QpnBlocks& from, RandomSource& random) : source(from), within(random) { group_of.fill(kNotOurs); }
    uint16_t group(uint32_t qpn) const { return group_of[qpn >> kQpnBlockBits & (kQpnBlocks - 1)]; }

    QpnBlocks& source;
    Permutation<kQpnBlockBits> within;
    std::vector<uint32_t> blocks;               // of each group that has one
    std::array<uint16_t, kQpnBlocks> group_of;  // by block
  };

  const uint32_t slots_;
  const uint32_t slot_bits_;  // of a number that is not of a block
  const uint32_t slot_mask_;
  Permutation<24> whole_;
  std::unique_ptr<Shared> shared_;  // nullptr: all numbers are ours
};

}  // namespace uroce
