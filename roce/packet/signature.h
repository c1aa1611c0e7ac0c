// How a stack that understands selective ACKs makes itself known to another such stack: by a value in a field that
// means nothing to others, which is the IPv4 identification, or the IPv6 flow label when the program does not set one
// (doc/adr/0015-selective-repeat.md).
//
// IPv4: 16 bits of a hash of both QP numbers and the packet's PSN. A stack that leaves the field zero or constant,
// counts in it or fills it at random does not match several packets in a row. IPv6: 20 bits of a hash of the QP numbers
// alone, because switches spread flows by the label and one flow must keep its path. The label is never zero.
#pragma once

#include <cstdint>

#include "uroce/psn.h"

namespace uroce {

class Signature {
 public:
  constexpr Signature() = default;
  /// The signature of the packets that QP `source` sends to QP `destination`.
  constexpr Signature(uint32_t source, uint32_t destination)
      : key_(mix((uint64_t{kVersion} << 48) | (uint64_t{source & 0xFFFFFF} << 24) | (destination & 0xFFFFFF)) | 1) {}

  constexpr bool is_set() const { return key_ != 0; }
  constexpr uint16_t identification(Psn psn) const { return static_cast<uint16_t>(mix(key_ + psn.value()) >> 48); }
  constexpr uint32_t flow_label() const {
    const auto label = static_cast<uint32_t>(key_ >> 44);
    return label != 0 ? label : 1;
  }

 private:
  static constexpr uint16_t kVersion = 1;

  /// Steele, Lea and Flood's finalizer (SplitMix).
  static constexpr uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  uint64_t key_ = 0;  // 0: none
};

}  // namespace uroce
