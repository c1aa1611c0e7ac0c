#include "engine/qp_numbers.h"

#include <algorithm>

namespace uroce {

QpNumbers::QpNumbers(uint32_t slots, RandomSource& random, QpnBlocks* blocks)
    : slots_(slots), slot_bits_(slots > 1u << 16 ? 17 : 16), slot_mask_((1u << slot_bits_) - 1), whole_(random) {
  if (blocks == nullptr) return;
  shared_ = std::make_unique<Shared>(*blocks, random);
  shared_->blocks.reserve((slots + kGroupMask) >> kGroupBits);
}

uint32_t QpNumbers::extend() {
  if (!shared_) return slots_;
  std::vector<uint32_t>& blocks = shared_->blocks;
  const auto groups = static_cast<uint32_t>(blocks.size());
  const uint32_t numbered = std::min(slots_, groups << kGroupBits);
  if (numbered == slots_) return numbered;
  const std::optional<uint32_t> block = shared_->source.take();
  // Other programs can write to the source of blocks, so a bad value must not end this one: it counts as none.
  if (!block || *block == 0 || *block >= kQpnBlocks - 1) return numbered;
  uint16_t& group = shared_->group_of[*block];
  if (group != Shared::kNotOurs) return numbered;
  group = static_cast<uint16_t>(groups);
  blocks.push_back(*block);
  return std::min(slots_, (groups + 1) << kGroupBits);
}

uint32_t QpNumbers::number(uint32_t slot, uint32_t generation) const {
  if (!shared_) return whole_.forward((generation << slot_bits_ | slot) & (kQpnBlocks * kQpnBlockSize - 1));
  const uint32_t in_block = (generation & 0xF) << kGroupBits | (slot & kGroupMask);
  return shared_->blocks[slot >> kGroupBits] << kQpnBlockBits | shared_->within.forward(in_block);
}

}  // namespace uroce
