// The ones-complement sum, as the card's two checksum units compute it.
#pragma once

#include <cstdint>
#include <span>

namespace mqnic::card {

/// Sum of the bytes as big-endian 16-bit words, an odd last byte being a word's upper half. Not inverted.
uint16_t ones_complement_sum(std::span<const uint8_t> bytes);

}  // namespace mqnic::card
