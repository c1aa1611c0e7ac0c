// Small helpers for text that people read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "uroce/time.h"

namespace uroce::script {

std::string format [[gnu::format(printf, 1, 2)]] (const char* text, ...);

/// A duration as scripts write it: "0", "10us", "1.5ms".
std::string to_text(Duration duration);

/// Byte `i` of pattern `n`: what payloads and memory are filled with.
constexpr uint8_t pattern_byte(int64_t n, int64_t i) {
  // The term with the upper bits of i makes distant places differ, so that data in the wrong place is noticed.
  return static_cast<uint8_t>(n * 59 + i * 7 + (i >> 8) * 13 + 1);
}
std::vector<uint8_t> pattern_bytes(int64_t n, int64_t offset, size_t count);

}  // namespace uroce::script
