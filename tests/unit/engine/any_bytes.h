// Feeds an engine with live QPs any bytes at all: noise, damaged packets, and packets that are right in everything but
// their meaning. Sends, receives, timeouts, registrations and recoveries go on meanwhile.
#pragma once

#include <cstdint>
#include <string>

#include "uroce/types.h"

namespace uroce::test {

struct AnyBytesReport {
  std::string failure;  // empty when every check held
  uint64_t frames = 0;
  uint64_t dropped = 0;
  uint64_t handled = 0;
  uint64_t sent = 0;
  uint64_t recoveries = 0;
};

AnyBytesReport feed_any_bytes(QpType type, uint64_t seed, uint64_t frames);

/// UROCE_SEED, or `otherwise`.
uint64_t seed_or(uint64_t otherwise);

}  // namespace uroce::test
