// What all ends of connections on one host share.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "oracle/retry_wait.h"
#include "oracle/shared_counter.h"
#include "sim/testbed.h"

namespace uroce::oracle {

struct HostShare {
  HostShare(const sim::Side& side, uint32_t source_bytes, SeededRandom& random);

  sim::Buffer source;  // random bytes that never change
  SharedCounter counter;
  std::vector<Leap> leaps;  // of the host's clock, so far
};

}  // namespace uroce::oracle
