// The clock of a host leaps, once or several times so near to each other that no answer comes between them.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "oracle/rc_pairs.h"

namespace uroce::oracle {

class ClockLeaps {
 public:
  explicit ClockLeaps(RandomSource& random) : random_(random) {}

  void begin(RcPairs& pairs, Instant now);
  void step(RcPairs& pairs, Instant now);

 private:
  void leap(RcPairs& pairs, Instant now);

  RandomSource& random_;
  uint32_t left_ = 0;
  unsigned side_ = 0;
  Instant next_ = Instant::never();
};

}  // namespace uroce::oracle
