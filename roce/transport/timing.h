// The transport's timer codes as durations.
#pragma once

#include <cstdint>

#include "uroce/time.h"

namespace uroce {

/// Local ACK timeout: 4.096 us * 2^code; code 0 means that the timer is off.
constexpr Duration ack_timeout(uint8_t code) {
  return code == 0 ? Duration{0} : Duration{int64_t{4096} << (code & 0x1f)};
}

/// The time that the timer field of an RNR NAK stands for. Codes 0..31 as the InfiniBand specification lists them:
/// 655.36 ms, 0.01 ms ... 491.52 ms.
Duration rnr_delay(uint8_t code);

/// The number of messages that the credit code of an AETH (0..30) stands for. Code 31 means that no credits are given.
uint32_t credits_of(uint8_t code);
/// The largest code whose credits do not exceed `receives`.
uint8_t credit_code(uint32_t receives);

}  // namespace uroce
