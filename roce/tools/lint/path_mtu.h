// The path MTU of RoCE: the payload of every packet of a message but the last.
#pragma once

#include <bit>
#include <cstdint>

namespace uroce::lint {

inline constexpr uint32_t kSmallestMtu = 256;
inline constexpr uint32_t kLargestMtu = 4096;

constexpr bool is_mtu(uint32_t bytes) {
  return bytes >= kSmallestMtu && bytes <= kLargestMtu && std::has_single_bit(bytes);
}

/// The packets that `length` bytes take; an empty message takes one, too.
constexpr uint32_t packets_of(uint32_t length, uint32_t mtu) {
  return length == 0 ? 1 : static_cast<uint32_t>((uint64_t{length} + mtu - 1) / mtu);
}

}  // namespace uroce::lint
