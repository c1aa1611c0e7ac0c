// The descriptors of one packet, as the engines fetch them.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "pmd/card/dma.h"
#include "pmd/card/queue_manager.h"
#include "pmd/hw/formats.h"

namespace mqnic::card {

/// Room for the largest block.
using DescriptorBlock = std::array<Descriptor, 8>;

/// A copy of the block at the ring's consumer pointer, so that the host cannot change what has been checked. Empty when
/// the block is not in mapped memory.
inline std::span<const Descriptor> fetch_block(Dma& dma, const RingManager::Queue& ring, DescriptorBlock& copy) {
  const size_t count = size_t{1} << ring.log2_block;
  const bool read = dma.read(ring.block_address(), reinterpret_cast<uint8_t*>(copy.data()), count * sizeof(Descriptor));
  return read ? std::span<const Descriptor>(copy.data(), count) : std::span<const Descriptor>();
}

}  // namespace mqnic::card
