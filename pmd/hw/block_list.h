// The card describes its parts in linked lists of register blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pmd/hw/bus.h"
#include "pmd/hw/failure.h"
#include "pmd/hw/registers.h"

namespace mqnic {

struct Block {
  BlockType type;
  uint32_t version;
  uint32_t offset;  // in BAR0
};

/// For example "0xc001 (interface control)".
std::string block_name(BlockType type);

class BlockList {
 public:
  /// Walks the list that starts at `base + start`; the links are relative to `base`. `place` is for messages, for
  /// example "device" or "interface 0". Holes are left out. Fails on all-ones, a loop, or a link that leads outside.
  static Failure read(Bus& bus, uint32_t base, uint32_t start, const std::string& place, BlockList& out);

  const std::vector<Block>& blocks() const { return blocks_; }

  /// The first block of a type; nullptr when there is none.
  const Block* find(BlockType type) const;

  /// Gives the offset of the block of this type, which the driver needs. Fails when it is missing or has another
  /// version; the message names the block and the version that was found.
  Failure require(BlockType type, uint32_t version, uint32_t& offset) const;
  Failure check_version(const Block& block, uint32_t version) const;

 private:
  std::string where_;  // "inline: interface 0"
  std::vector<Block> blocks_;
};

}  // namespace mqnic
