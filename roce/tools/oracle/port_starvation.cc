#include "oracle/port_starvation.h"

namespace uroce::oracle {

void PortStarvation::step(RcPairs& pairs, Instant now) {
  if (!on_ || now < until_) return;
  const bool starve = random_.below(2) == 0;
  for (unsigned s = 0; s < kSides; s++) {
    pairs.host(s).host().port().set_tx_room(starve ? 0 : 1 + random_.below(32));
  }
  until_ = now + microseconds(10 + random_.below(starve ? 400 : 300));
}

void PortStarvation::calm(RcPairs& pairs) const {
  if (!on_) return;
  for (unsigned s = 0; s < kSides; s++) pairs.host(s).host().port().set_tx_room(32);
}

}  // namespace uroce::oracle
