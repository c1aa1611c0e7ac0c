// The one's complement sum, as the card's two checksum units compute it.
#pragma once

#include <cstdint>
#include <span>

namespace mqnic::card {

/// The sum of the bytes as big-endian 16-bit words, where an odd last byte is the upper half of a word. Not inverted.
uint16_t ones_complement_sum(std::span<const uint8_t> bytes);

}  // namespace mqnic::card
