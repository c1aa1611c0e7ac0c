// Decides whether a frame that leaves a queue is marked, by the bytes that it leaves behind.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "fabric/switch_config.h"

namespace uroce::fabric {

class EcnMarker {
 public:
  EcnMarker() = default;  // marks nothing
  /// For a port of this rate, by which the thresholds are scaled if `ecn` says so.
  EcnMarker(const EcnConfig& ecn, uint64_t bits_per_second);

  bool marks(uint64_t left_bytes, RandomSource& random) const {
    if (left_bytes <= kmin_) return false;
    // In integers: random32 * span < (bytes - kmin) * pmax32 needs no division.
    return left_bytes > kmax_ || random.next_u32() * (kmax_ - kmin_) < (left_bytes - kmin_) * pmax32_;
  }

 private:
  uint64_t kmin_ = UINT64_MAX;
  uint64_t kmax_ = UINT64_MAX;
  uint64_t pmax32_ = 0;  // in units of 1/2^32
};

}  // namespace uroce::fabric
