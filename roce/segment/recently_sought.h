// The queue pair numbers whose owner a program has looked for a short time ago, so that it does not read the directory
// for each frame to a member that is not there.
#pragma once

#include <bitset>
#include <cstdint>

#include "segment/peers.h"

namespace uroce::segment {

class RecentlySought {
 public:
  /// True once in Peers::kReadForUnknown for each block of a host's numbers. Blocks share places, so now and then it is
  /// false for one that was not sought yet.
  bool is_first(const MacAddress& mac, uint32_t qpn, Instant now) {
    if (now - since_ >= Peers::kReadForUnknown) {
      places_.reset();
      since_ = now;
    }
    uint32_t host = 0;
    for (const uint8_t byte : mac.bytes) host = host * 31 + byte;
    auto place = places_[(host ^ qpn >> kQpnBlockBits) % kQpnBlocks];
    if (place) return false;
    place = true;
    return true;
  }

 private:
  std::bitset<kQpnBlocks> places_;
  Instant since_{0};
};

}  // namespace uroce::segment
