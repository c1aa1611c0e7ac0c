// The three words that every register block of the card begins with.
#pragma once

#include <cstdint>

#include "pmd/hw/registers.h"

namespace mqnic::card {

inline constexpr uint32_t kBlockHeaderBytes = 0x0c;  // the block's own registers follow

/// The word at `offset`, below kBlockHeaderBytes. `next`: where the next block of the list begins; 0 in the last.
inline uint32_t block_header(BlockType type, uint32_t version, uint32_t next, uint32_t offset) {
  switch (offset) {
    case kBlockType:
      return static_cast<uint32_t>(type);
    case kBlockVersion:
      return version;
    default:
      return next;
  }
}

}  // namespace mqnic::card
