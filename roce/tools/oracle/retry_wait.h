// Whether a QP that gave up has waited long enough before: each retry that no NAK asked for has waited for an answer,
// by the host's clock, for the timeout at least.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/testbed.h"

namespace uroce::oracle {

/// A host's clock went on by `by` at once.
struct Leap {
  Instant when;  // by the network's clock
  Duration by;
};

class RetryWait {
 public:
  /// Something of the QP was done, or is waited for from now on. `leaps`: all of its host, so far.
  void begin(const sim::Side& side, const std::vector<Leap>& leaps);
  /// However far the clock leaps at once: a leap ends one wait.
  bool long_enough(const sim::Side& side, const std::vector<Leap>& leaps) const;

 private:
  Instant began_at_{0};  // by the host's clock
  size_t leaps_before_ = 0;
  uint64_t naks_before_ = 0;  // that the host had
};

}  // namespace uroce::oracle
