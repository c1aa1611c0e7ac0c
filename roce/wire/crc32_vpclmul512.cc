// 512-bit carry-less multiplication: four registers of four blocks each, 256 bytes a step.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the "undefined" operand in its own AVX-512 header for a use of uninitialised memory.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define UROCE_CRC_TARGET "vpclmulqdq,pclmul,avx2,avx512f,avx512vl"
#include "wire/crc32_kernels.h"
#include "wire/crc32_xmm.h"

namespace uroce::crc {
namespace {

constexpr size_t kLanes = 4;
constexpr size_t kLaneBlocks = 4;
constexpr size_t kStepBlocks = kLanes * kLaneBlocks;
constexpr size_t kDirectBlocks = 16;  // up to here no main loop: every block goes straight to the end
alignas(16) constexpr ConstantPair kFold1 = fold_constants(128);
alignas(16) constexpr ConstantPair kFoldStep = fold_constants(128 * kStepBlocks);

UROCE_CRC_INLINE __m512i load512(const void* p) { return _mm512_loadu_si512(p); }
UROCE_CRC_INLINE void store512(void* p, __m512i v) { _mm512_storeu_si512(p, v); }
UROCE_CRC_INLINE __m512i add3(__m512i a, __m512i b, __m512i c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }

/// sum + H * k.low + L * k.high, in each 128-bit part
UROCE_CRC_INLINE __m512i add_product(__m512i sum, __m512i v, __m512i k) {
  return add3(sum, _mm512_clmulepi64_epi128(v, k, 0x00), _mm512_clmulepi64_epi128(v, k, 0x11));
}

UROCE_CRC_INLINE __m128i add_quarters(__m512i v) {
  const __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
  return _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/// The state after `blocks` blocks, the last of the message, whose sum with what came before is narrow + wide.
template <bool kCopy>
UROCE_CRC_INLINE uint32_t finish(__m128i narrow, __m512i wide, uint8_t* dst, const uint8_t* src, size_t blocks) {
  const ConstantPair* k = end_constants(blocks) + 1;
  for (; blocks >= kLaneBlocks; blocks -= kLaneBlocks, k += kLaneBlocks) {
    const __m512i v = load512(src);
    if constexpr (kCopy) store512(dst, v);
    wide = add_product(wide, v, load512(k));
    src += 16 * kLaneBlocks;
    dst += 16 * kLaneBlocks;
  }
  if (blocks != 0) {
    const auto mask = static_cast<__mmask8>((1u << (2 * blocks)) - 1);
    const __m512i v = _mm512_maskz_loadu_epi64(mask, src);
    if constexpr (kCopy) _mm512_mask_storeu_epi64(dst, mask, v);
    wide = add_product(wide, v, _mm512_maskz_loadu_epi64(mask, k));
  }
  return reduce(_mm_xor_si128(narrow, add_quarters(wide)));
}

template <bool kCopy>
UROCE_CRC_INLINE uint32_t run_direct(const Head& head, uint8_t* dst, const uint8_t* src, size_t blocks) {
  const ConstantPair* k = end_constants(blocks);
  const __m128i v = load128(src);
  if constexpr (kCopy) store128(dst, v);
  const __m128i b =
      _mm_xor_si128(multiply(head.block, load128(k)), multiply(_mm_xor_si128(v, head.spill), load128(k + 1)));
  return finish<kCopy>(b, _mm512_setzero_si512(), dst + 16, src + 16, blocks - 1);
}

template <bool kCopy>
UROCE_CRC_INLINE uint32_t run_long(const Head& head, uint8_t* dst, const uint8_t* src, size_t blocks) {
  __m512i lane[kLanes];
  for (size_t i = 0; i < kLanes; i++) {
    lane[i] = load512(src + 64 * i);
    if constexpr (kCopy) store512(dst + 64 * i, lane[i]);
  }
  const __m128i front = _mm_xor_si128(head.spill, multiply(head.block, load128(&kFold1)));
  lane[0] = _mm512_xor_si512(lane[0], _mm512_zextsi128_si512(front));
  const __m512i fold = _mm512_broadcast_i32x4(load128(&kFoldStep));
  for (blocks -= kStepBlocks; blocks >= kStepBlocks; blocks -= kStepBlocks) {
    src += 64 * kLanes;
    dst += 64 * kLanes;
    for (size_t i = 0; i < kLanes; i++) {
      const __m512i v = load512(src + 64 * i);
      if constexpr (kCopy) store512(dst + 64 * i, v);
      lane[i] = add_product(v, lane[i], fold);
    }
  }
  const ConstantPair* k = end_constants(blocks + kStepBlocks - 1);
  __m512i wide = _mm512_setzero_si512();
  for (size_t i = 0; i < kLanes; i++) wide = add_product(wide, lane[i], load512(k + kLaneBlocks * i));
  return finish<kCopy>(_mm_setzero_si128(), wide, dst + 64 * kLanes, src + 64 * kLanes, blocks);
}

template <bool kCopy>
UROCE_CRC_INLINE uint32_t run(uint32_t state, uint8_t* dst, const uint8_t* src, size_t bytes) {
  if (bytes < 16) return run_below_16<kCopy>(state, dst, src, bytes);
  const size_t head_bytes = bytes % 16;
  const size_t blocks = bytes / 16;
  const Head head = load_head<kCopy>(state, dst, src, head_bytes);
  if (blocks <= kDirectBlocks) return run_direct<kCopy>(head, dst + head_bytes, src + head_bytes, blocks);
  return run_long<kCopy>(head, dst + head_bytes, src + head_bytes, blocks);
}

}  // namespace

__attribute__((target(UROCE_CRC_TARGET))) uint32_t vpclmul512_update(uint32_t state, const void* data, size_t bytes) {
  return run<false>(state, nullptr, static_cast<const uint8_t*>(data), bytes);
}

__attribute__((target(UROCE_CRC_TARGET))) uint32_t vpclmul512_copy(uint32_t state, void* dst, const void* src,
                                                                   size_t bytes) {
  return run<true>(state, static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(src), bytes);
}

}  // namespace uroce::crc
