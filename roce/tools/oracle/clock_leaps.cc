#include "oracle/clock_leaps.h"

#include "base/check.h"

namespace uroce::oracle {

void ClockLeaps::begin(RcPairs& pairs, Instant now) {
  side_ = random_.below(kSides);
  left_ = random_.below(2) == 0 ? 1 : 1 + random_.below(12);
  leap(pairs, now);
}

void ClockLeaps::step(RcPairs& pairs, Instant now) {
  if (now >= next_) leap(pairs, now);
}

void ClockLeaps::leap(RcPairs& pairs, Instant now) {
  ensure(left_ != 0, "a leap was announced");
  const Duration by =
      random_.below(3) == 0 ? milliseconds(1 + random_.below(5000)) : microseconds(100 + random_.below(5000));
  pairs.host(side_).leap(now, by);
  left_--;
  next_ = left_ == 0 ? Instant::never() : now + microseconds(1 + random_.below(300));
  ensure((left_ == 0) == (next_ == Instant::never()), "as long as leaps are left, the next one has its time");
}

}  // namespace uroce::oracle
