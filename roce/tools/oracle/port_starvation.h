// Ports that take a few frames at a time, or for a while none at all.
#pragma once

#include "base/random.h"
#include "oracle/rc_pairs.h"

namespace uroce::oracle {

class PortStarvation {
 public:
  PortStarvation(const MixedOptions& options, RandomSource& random) : on_(options.has(Fault::kPort)), random_(random) {}

  void step(RcPairs& pairs, Instant now);
  /// From now on they take what they can.
  void calm(RcPairs& pairs) const;

 private:
  bool on_;
  RandomSource& random_;
  Instant until_{0};  // when they take another number
};

}  // namespace uroce::oracle
