// The checksum of IP, ICMP and IGMP: the complement of the ones' complement sum of 16-bit words.
#pragma once

#include <cstdint>
#include <span>

#include "base/big_endian.h"

namespace uroce {

/// Not folded yet; sums of up to some 64 KB add up without overflow.
inline uint32_t sum16(std::span<const uint8_t> data) {
  uint32_t sum = 0;
  size_t i = 0;
  for (; i + 1 < data.size(); i += 2) sum += load_be16(data.data() + i);
  if (i < data.size()) sum += uint32_t{data[i]} << 8;
  return sum;
}

inline uint16_t fold16(uint32_t sum) {
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

}  // namespace uroce
