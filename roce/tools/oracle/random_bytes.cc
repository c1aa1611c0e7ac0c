#include "oracle/random_bytes.h"

namespace uroce::oracle {

void fill_with_random_bytes(const sim::Buffer& buffer, SeededRandom& random) {
  // A generator of its own stays in registers: these are most of what a short run does.
  SeededRandom here = random;
  uint8_t* const end = buffer.data() + buffer.size;
  for (uint8_t* at = buffer.data(); at != end; at++) *at = static_cast<uint8_t>(here.next_u32());
  random = here;
}

}  // namespace uroce::oracle
