// 128-bit steps that the carry-less multiplication kernels share. The text is compiled once per kernel, for that
// kernel's CPU: define UROCE_CRC_TARGET (the target attribute's string) before including this, in one .cc file only.
// The code here reads the program's memory, so all of it is inlined into the guarded functions of the .cc file.
//
// Everything has internal linkage, so that no code for a newer CPU can end up in a function that an older one calls.
#pragma once

#include <immintrin.h>

#include "base/guarded_memory.h"
#include "packet/crc32_math.h"

#define UROCE_CRC_INLINE static inline __attribute__((always_inline, target(UROCE_CRC_TARGET)))

namespace uroce::crc {
namespace {

UROCE_CRC_INLINE __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
UROCE_CRC_INLINE void store128(void* p, __m128i v) { _mm_storeu_si128(static_cast<__m128i*>(p), v); }

UROCE_CRC_INLINE uint64_t load64(const uint8_t* p) { return reinterpret_cast<const Unaligned64*>(p)->value; }

UROCE_CRC_INLINE uint32_t load32(const uint8_t* p) { return reinterpret_cast<const Unaligned32*>(p)->value; }

UROCE_CRC_INLINE void store64(uint8_t* p, uint64_t v) { reinterpret_cast<Unaligned64*>(p)->value = v; }
UROCE_CRC_INLINE void store32(uint8_t* p, uint32_t v) { reinterpret_cast<Unaligned32*>(p)->value = v; }

/// What `update` passes as `dst`: nothing is written there, but it is advanced like the source, so it must be a valid
/// pointer.
UROCE_CRC_INLINE uint8_t* no_destination(const void* src) {
  return const_cast<uint8_t*>(static_cast<const uint8_t*>(src));
}

/// H * k.low + L * k.high
UROCE_CRC_INLINE __m128i multiply(__m128i v, __m128i k) {
  return _mm_xor_si128(_mm_clmulepi64_si128(v, k, 0x00), _mm_clmulepi64_si128(v, k, 0x11));
}

/// From B (crc32_math.h) to the state.
UROCE_CRC_INLINE uint32_t reduce(__m128i b) {
  const __m128i k = load128(&kBarrett);
  const __m128i quotient = _mm_clmulepi64_si128(b, k, 0x00);
  const __m128i product = _mm_clmulepi64_si128(quotient, k, 0x10);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(b, product), 2));
}

/// 1 to 3 bytes, least significant first.
UROCE_CRC_INLINE uint32_t load_1_to_3(const uint8_t* p, size_t bytes) {
  return p[0] | (uint32_t{p[bytes / 2]} << (8 * (bytes / 2))) | (uint32_t{p[bytes - 1]} << (8 * (bytes - 1)));
}

template <bool kCopy>
UROCE_CRC_INLINE uint32_t run_below_8(uint32_t state, uint8_t* dst, const uint8_t* src, size_t bytes) {
  if (bytes == 0) return state;
  const unsigned bits = static_cast<unsigned>(8 * bytes);
  uint64_t v;
  uint32_t spill = 0;
  if (bytes >= 4) {
    const uint32_t first = load32(src);
    const uint32_t last = load32(src + bytes - 4);
    if constexpr (kCopy) {
      store32(dst, first);
      store32(dst + bytes - 4, last);
    }
    v = (first | (uint64_t{last} << (bits - 32))) ^ state;
  } else {
    const uint32_t all = load_1_to_3(src, bytes);
    if constexpr (kCopy) {
      dst[0] = static_cast<uint8_t>(all);
      dst[bytes / 2] = static_cast<uint8_t>(all >> (8 * (bytes / 2)));
      dst[bytes - 1] = static_cast<uint8_t>(all >> (8 * (bytes - 1)));
    }
    v = all ^ state;  // the shift below drops the part of the state behind these bytes
    spill = state >> bits;
  }
  return reduce(_mm_cvtsi64_si128(static_cast<int64_t>(v << (64 - bits)))) ^ spill;
}

template <bool kCopy>
UROCE_CRC_INLINE uint32_t run_up_to_16(uint32_t state, uint8_t* dst, const uint8_t* src, size_t bytes) {
  if (bytes < 8) return run_below_8<kCopy>(state, dst, src, bytes);
  if (bytes == 16) {
    const __m128i v = load128(src);
    if constexpr (kCopy) store128(dst, v);
    const __m128i s = _mm_cvtsi32_si128(static_cast<int>(state));
    return reduce(multiply(_mm_xor_si128(v, s), load128(end_constants(0))));
  }
  const uint64_t first = load64(src);
  const uint64_t last = load64(src + bytes - 8);
  if constexpr (kCopy) {
    store64(dst, first);
    store64(dst + bytes - 8, last);
  }
  const uint64_t head = first ^ state;
  if (bytes == 8) return reduce(_mm_cvtsi64_si128(static_cast<int64_t>(head)));
  // As one register with zero bytes in front: the first bytes - 8 of them are H, the others L.
  const unsigned shift = static_cast<unsigned>(8 * (16 - bytes));
  const uint64_t high = head << shift;
  const uint64_t low = ((last >> shift) << shift) | (head >> (64 - shift));
  const __m128i folded =
      _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<int64_t>(high)), load128(end_constants(0)), 0);
  return reduce(_mm_xor_si128(folded, _mm_cvtsi64_si128(static_cast<int64_t>(low))));
}

/// One block of the masked headers.
UROCE_CRC_INLINE __m128i header_block(const HeaderTable& t, unsigned i, __m128i bytes) {
  return multiply(_mm_or_si128(bytes, load128(t.ones + 16 * i)), load128(&t.block[i]));
}

UROCE_CRC_INLINE uint32_t run_header(const uint8_t* l3, bool ipv6) {
  const HeaderTable& t = ipv6 ? kIpv6Header : kIpv4Header;
  const __m128i first = _mm_xor_si128(_mm_or_si128(load128(l3), load128(t.ones)), load128(t.state));
  __m128i b = _mm_xor_si128(multiply(first, load128(&t.block[0])), header_block(t, 1, load128(l3 + 16)));
  if (!ipv6) {
    const __m128i last = _mm_loadl_epi64(static_cast<const __m128i*>(static_cast<const void*>(l3 + 32)));
    return reduce(_mm_xor_si128(b, header_block(t, 2, last)));
  }
  b = _mm_xor_si128(b, header_block(t, 2, load128(l3 + 32)));
  return reduce(_mm_xor_si128(b, header_block(t, 3, _mm_srli_si128(load128(l3 + 44), 4))));
}

/// The beginning of a message of at least 16 bytes: its first (length % 16) bytes, in a register with zero bytes in
/// front, and `spill`, the part of the state that reaches into the 16-byte blocks behind them. Most messages have no
/// such bytes: `bytes` is 0, and the whole state belongs to the first block.
struct Head {
  size_t bytes;
  __m128i block;
  __m128i spill;
};

template <bool kCopy>
UROCE_CRC_INLINE Head load_head(uint32_t state, uint8_t* dst, const uint8_t* src, size_t bytes) {
  const __m128i s = _mm_cvtsi32_si128(static_cast<int>(state));
  if (bytes == 0) return {0, _mm_setzero_si128(), s};
  const __m128i first = load128(src);
  if constexpr (kCopy) store128(dst, first);
  return {bytes, _mm_shuffle_epi8(_mm_xor_si128(first, s), load128(kShuffle + bytes)),
          _mm_shuffle_epi8(s, load128(kShuffle + 16 + bytes))};
}

/// The head as it adds to the end, when `following` blocks follow it.
UROCE_CRC_INLINE __m128i head_at_end(const Head& head, size_t following) {
  return head.bytes == 0 ? _mm_setzero_si128() : multiply(head.block, load128(end_constants(following)));
}

/// The head as it adds to the first block, folded over it.
UROCE_CRC_INLINE __m128i head_at_first_block(const Head& head, __m128i fold) {
  return head.bytes == 0 ? head.spill : _mm_xor_si128(head.spill, multiply(head.block, fold));
}

}  // namespace
}  // namespace uroce::crc
