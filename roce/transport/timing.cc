#include "transport/timing.h"

#include <algorithm>
#include <bit>

namespace uroce {

namespace {

// Hundredths of a millisecond.
constexpr uint32_t kRnrHundredths[32] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                         48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                         2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

constexpr uint32_t kCredits[31] = {0,    1,    2,    3,    4,    6,     8,     12,    16,   24,   32,
                                   48,   64,   96,   128,  192,  256,   384,   512,   768,  1024, 1536,
                                   2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

}  // namespace

Duration rnr_delay(uint8_t code) { return microseconds(int64_t{kRnrHundredths[code & 31]} * 10); }

uint32_t credits_of(uint8_t code) { return kCredits[code < 31 ? code : 30]; }

uint8_t credit_code(uint32_t receives) {
  if (receives < 4) return static_cast<uint8_t>(receives);
  // From 4 on there are two codes for each power of two: itself and half as much again.
  const auto power = static_cast<uint32_t>(std::bit_width(receives)) - 1;
  const uint32_t code = 2 * power + (receives >> (power - 1) & 1);
  return static_cast<uint8_t>(std::min(code, 30u));
}

}  // namespace uroce
