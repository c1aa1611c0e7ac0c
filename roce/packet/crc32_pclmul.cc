// 128-bit carry-less multiplication: eight registers, 128 bytes a step.
#define UROCE_CRC_TARGET "pclmul,sse4.1"
#include "packet/crc32_kernels.h"
#include "packet/crc32_xmm.h"

namespace uroce::crc {
namespace {

constexpr size_t kLanes = 8;
constexpr size_t kDirectBlocks = 32;  // up to this many there is no main loop: every block goes straight to the end
alignas(16) constexpr ConstantPair kFold1 = fold_constants(128);
alignas(16) constexpr ConstantPair kFold8 = fold_constants(128 * kLanes);

/// Adds the last `blocks` blocks of the message to `b`.
template <bool kCopy>
UROCE_CRC_INLINE __m128i add_end(__m128i b, uint8_t* dst, const uint8_t* src, size_t blocks) {
  const ConstantPair* k = end_constants(blocks) + 1;
  for (size_t i = 0; i < blocks; i++) {
    const __m128i v = load128(src + 16 * i);
    if constexpr (kCopy) store128(dst + 16 * i, v);
    b = _mm_xor_si128(b, multiply(v, load128(k + i)));
  }
  return b;
}

template <bool kCopy>
UROCE_CRC_INLINE uint32_t run_direct(const Head& head, uint8_t* dst, const uint8_t* src, size_t blocks) {
  const __m128i v = load128(src);
  if constexpr (kCopy) store128(dst, v);
  const __m128i first = multiply(_mm_xor_si128(v, head.spill), load128(end_constants(blocks - 1)));
  const __m128i b = _mm_xor_si128(head_at_end(head, blocks), first);
  return reduce(add_end<kCopy>(b, dst + 16, src + 16, blocks - 1));
}

template <bool kCopy>
UROCE_CRC_INLINE uint32_t run_long(const Head& head, uint8_t* dst, const uint8_t* src, size_t blocks) {
  __m128i lane[kLanes];
  for (size_t i = 0; i < kLanes; i++) {
    lane[i] = load128(src + 16 * i);
    if constexpr (kCopy) store128(dst + 16 * i, lane[i]);
  }
  lane[0] = _mm_xor_si128(lane[0], head_at_first_block(head, load128(&kFold1)));
  const __m128i fold = load128(&kFold8);
  for (blocks -= kLanes; blocks >= kLanes; blocks -= kLanes) {
    src += 16 * kLanes;
    dst += 16 * kLanes;
    for (size_t i = 0; i < kLanes; i++) {
      const __m128i v = load128(src + 16 * i);
      if constexpr (kCopy) store128(dst + 16 * i, v);
      lane[i] = _mm_xor_si128(v, multiply(lane[i], fold));
    }
  }
  const ConstantPair* k = end_constants(blocks + kLanes - 1);
  __m128i b = _mm_setzero_si128();
  for (size_t i = 0; i < kLanes; i++) b = _mm_xor_si128(b, multiply(lane[i], load128(k + i)));
  return reduce(add_end<kCopy>(b, dst + 16 * kLanes, src + 16 * kLanes, blocks));
}

template <bool kCopy>
UROCE_CRC_INLINE uint32_t run(uint32_t state, uint8_t* dst, const uint8_t* src, size_t bytes) {
  if (bytes <= 16) return run_up_to_16<kCopy>(state, dst, src, bytes);
  const size_t head_bytes = bytes % 16;
  const size_t blocks = bytes / 16;
  const Head head = load_head<kCopy>(state, dst, src, head_bytes);
  if (blocks <= kDirectBlocks) return run_direct<kCopy>(head, dst + head_bytes, src + head_bytes, blocks);
  return run_long<kCopy>(head, dst + head_bytes, src + head_bytes, blocks);
}

}  // namespace

__attribute__((target(UROCE_CRC_TARGET))) uint32_t pclmul_update(uint32_t state, const void* data, size_t bytes) {
  return run<false>(state, no_destination(data), static_cast<const uint8_t*>(data), bytes);
}

UROCE_GUARDED __attribute__((target(UROCE_CRC_TARGET))) uint32_t pclmul_copy(uint32_t state, void* dst, const void* src,
                                                                             size_t bytes) {
  return run<true>(state, static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(src), bytes);
}

__attribute__((target(UROCE_CRC_TARGET))) uint32_t pclmul_header(const uint8_t* l3, bool ipv6) {
  return run_header(l3, ipv6);
}

}  // namespace uroce::crc
