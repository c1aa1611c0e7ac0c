#include "oracle/buffer_shortage.h"

namespace uroce::oracle {

void BufferShortage::step(RcPairs& pairs, Instant now) {
  if (!on_ || now < until_) return;
  const uint32_t kind = random_.below(6);
  pairs.host(0).host().port().set_out_of_buffers(kind == 0 || kind == 2);
  pairs.host(1).host().port().set_out_of_buffers(kind == 1 || kind == 2);
  until_ = now + microseconds(10 + random_.below(kind <= 2 ? 300 : 1500));
}

void BufferShortage::calm(RcPairs& pairs) const {
  if (!on_) return;
  for (unsigned s = 0; s < kSides; s++) pairs.host(s).host().port().set_out_of_buffers(false);
}

}  // namespace uroce::oracle
