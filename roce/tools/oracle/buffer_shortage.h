// Spells without frame buffers, of either host by itself.
#pragma once

#include "base/random.h"
#include "oracle/rc_pairs.h"

namespace uroce::oracle {

class BufferShortage {
 public:
  BufferShortage(const MixedOptions& options, RandomSource& random)
      : on_(options.has(Fault::kMemory)), random_(random) {}

  void step(RcPairs& pairs, Instant now);
  /// From now on there are buffers.
  void calm(RcPairs& pairs) const;

 private:
  bool on_;
  RandomSource& random_;
  Instant until_{0};  // when it is drawn anew
};

}  // namespace uroce::oracle
