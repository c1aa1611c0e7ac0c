// The RNR NAK timer field as time: codes 0..31 as the InfiniBand specification lists them.
#pragma once

#include <cstdint>

#include "uroce/time.h"

namespace uroce::lint {

constexpr Duration rnr_timer(uint8_t code) {
  constexpr uint32_t kHundredthsOfMs[32] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                            48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                            2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return microseconds(int64_t{kHundredthsOfMs[code & 31]} * 10);
}

}  // namespace uroce::lint
