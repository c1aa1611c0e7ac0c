#include "pmd/card/checksum.h"

#include <cstddef>
#include <cstring>

namespace mqnic::card {

uint16_t ones_complement_sum(std::span<const uint8_t> bytes) {
  // Adds words in the machine's byte order, so that the bytes of the sum are exchanged; that is corrected at the end
  // (RFC 1071).
  uint64_t sum = 0;
  const uint8_t* data = bytes.data();
  size_t left = bytes.size();
  for (; left >= 4; left -= 4, data += 4) {
    uint32_t word;
    std::memcpy(&word, data, 4);
    sum += word;
  }
  uint32_t tail = 0;
  if (left != 0) std::memcpy(&tail, data, left);
  sum += tail;
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return __builtin_bswap16(static_cast<uint16_t>(sum));
}

}  // namespace mqnic::card
