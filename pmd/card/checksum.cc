#include "pmd/card/checksum.h"

#include <algorithm>
#include <cstddef>

#include "pmd/card/copy.h"

namespace mqnic::card {
namespace {

// The bytes that one step of `sum_long` copies and sums.
constexpr size_t kWideBytes = 64;
constexpr size_t kLinesAhead = 24;

#if defined(__x86_64__)
using WideLanes = uint64_t __attribute__((vector_size(32)));

/// Copies the bytes and returns their sum, as far as they fill whole steps; the rest is left to the caller.
__attribute__((target("avx2"))) uint64_t sum_long(uint8_t* to, const uint8_t* from, size_t bytes) {
  WideLanes low[2]{}, high[2]{};
  static_assert(sizeof(low) == kWideBytes);
  for (size_t left = bytes / kWideBytes; left != 0; --left, from += kWideBytes, to += kWideBytes) {
    // The frame may be in another processor's cache.
    __builtin_prefetch(from + kWideBytes * std::min(left - 1, kLinesAhead), 0, 2);
    WideLanes first, second;
    std::memcpy(&first, from, sizeof(first));
    std::memcpy(&second, from + sizeof(first), sizeof(second));
    std::memcpy(to, &first, sizeof(first));
    std::memcpy(to + sizeof(first), &second, sizeof(second));
    low[0] += first & 0xffffffff;
    high[0] += first >> 32;
    low[1] += second & 0xffffffff;
    high[1] += second >> 32;
  }
  const WideLanes all = low[0] + low[1] + high[0] + high[1];
  return all[0] + all[1] + all[2] + all[3];
}
bool has_wide_registers() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
#else
uint64_t sum_long(uint8_t*, const uint8_t*, size_t) { return 0; }
bool has_wide_registers() { return false; }
#endif

}  // namespace

uint64_t copy_and_sum_long(uint8_t* to, const uint8_t* from, size_t bytes) {
  if (!has_wide_registers()) return copy_and_sum_short(to, from, bytes);
  const size_t wide = bytes & ~(kWideBytes - 1);
  return sum_long(to, from, bytes) + copy_and_sum_short(to + wide, from + wide, bytes - wide);
}

uint16_t ones_complement_sum(std::span<const uint8_t> bytes) {
  return network_sum(sum_words(bytes.data(), bytes.size()));
}

}  // namespace mqnic::card
