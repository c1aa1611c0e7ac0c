// What a selective ACK (opcode 0xC0) says beside a plain one.
//
//   BTH    PSN: the last request received in order, as in an ACK
//   AETH   as in an ACK: credits and MSN
//   1 to 16 ranges, as payload: the packets held beyond a gap; the range that changed last comes first
//
// Each range is 8 bytes: the first PSN and the PSN behind the last, 24 bits each, each after a byte of zeros. A READ
// request counts as many PSNs as it has responses.
#pragma once

#include <cstdint>

#include "base/big_endian.h"
#include "uroce/psn.h"

namespace uroce {

struct SackRange {
  static constexpr uint32_t kBytes = 8;
  Psn first;
  Psn end;

  static SackRange decode(const uint8_t* p) { return {Psn(load_be32(p)), Psn(load_be32(p + 4))}; }
  void encode(uint8_t* p) const {
    store_be32(p, first.value());
    store_be32(p + 4, end.value());
  }
};

inline constexpr uint32_t kSackRangesMax = 16;

/// True when `payload_bytes` of a SACK are whole ranges, at least one and not too many.
constexpr bool sack_length_holds(uint32_t payload_bytes) {
  return payload_bytes != 0 && payload_bytes % SackRange::kBytes == 0 &&
         payload_bytes <= kSackRangesMax * SackRange::kBytes;
}

}  // namespace uroce
