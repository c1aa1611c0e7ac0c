// Eight bytes a step through eight tables: for CPUs without carry-less multiplication.
#include "base/guarded_memory.h"
#include "packet/crc32_kernels.h"
#include "packet/crc32_math.h"

namespace uroce::crc {
namespace {

constexpr SliceTables kTables = make_slice_tables();

inline uint32_t step8(uint64_t v) {
  uint32_t state = 0;
  for (unsigned i = 0; i < 8; i++) state ^= kTables[7 - i][(v >> (8 * i)) & 0xff];
  return state;
}

template <bool kCopy>
inline __attribute__((always_inline)) uint32_t run(uint32_t state, uint8_t* dst, const uint8_t* src, size_t bytes) {
  for (; bytes >= 8; bytes -= 8, src += 8) {
    const uint64_t v = reinterpret_cast<const Unaligned64*>(src)->value;
    if constexpr (kCopy) {
      reinterpret_cast<Unaligned64*>(dst)->value = v;
      dst += 8;
    }
    state = step8(v ^ state);
  }
  for (; bytes > 0; bytes--, src++) {
    const uint8_t b = *src;
    if constexpr (kCopy) *dst++ = b;
    state = (state >> 8) ^ kTables[0][(state ^ b) & 0xff];
  }
  return state;
}

}  // namespace

uint32_t table_update(uint32_t state, const void* data, size_t bytes) {
  return run<false>(state, nullptr, static_cast<const uint8_t*>(data), bytes);
}

UROCE_GUARDED uint32_t table_copy(uint32_t state, void* dst, const void* src, size_t bytes) {
  return run<true>(state, static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(src), bytes);
}

uint32_t table_header(const uint8_t* l3, bool ipv6) {
  const HeaderTable& t = ipv6 ? kIpv6Header : kIpv4Header;
  uint8_t masked[sizeof t.ones] = {};
  for (uint32_t i = 0; i < t.bytes; i++) masked[i] = l3[i] | t.ones[i];
  return run<false>(state_of_ones(8), nullptr, masked, t.bytes);
}

}  // namespace uroce::crc
