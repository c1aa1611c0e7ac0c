// 256-bit carry-less multiplication: four registers of two blocks each, 128 bytes a step.
#define UROCE_CRC_TARGET "vpclmulqdq,pclmul,avx2"
#include "packet/crc32_kernels.h"
#include "packet/crc32_xmm.h"

namespace uroce::crc {
namespace {

constexpr size_t kLanes = 4;
constexpr size_t kLaneBlocks = 2;
constexpr size_t kStepBlocks = kLanes * kLaneBlocks;
constexpr size_t kDirectBlocks = 32;  // up to this many there is no main loop: every block goes straight to the end
alignas(16) constexpr ConstantPair kFold1 = fold_constants(128);
alignas(16) constexpr ConstantPair kFoldStep = fold_constants(128 * kStepBlocks);

UROCE_CRC_INLINE __m256i load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
UROCE_CRC_INLINE void store256(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }

UROCE_CRC_INLINE __m256i multiply256(__m256i v, __m256i k) {
  return _mm256_xor_si256(_mm256_clmulepi64_epi128(v, k, 0x00), _mm256_clmulepi64_epi128(v, k, 0x11));
}

UROCE_CRC_INLINE __m128i add_halves(__m256i v) {
  return _mm_xor_si128(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

/// The state after the last `blocks` blocks of the message. narrow + wide is the sum of everything before them; `spill`
/// is added to the first of them.
template <bool kCopy>
UROCE_CRC_INLINE uint32_t finish(__m128i narrow, __m256i wide, __m128i spill, uint8_t* dst, const uint8_t* src,
                                 size_t blocks) {
  const ConstantPair* k = end_constants(blocks) + 1;
  if (blocks % 2 != 0) {
    const __m128i v = load128(src);
    if constexpr (kCopy) store128(dst, v);
    narrow = _mm_xor_si128(narrow, multiply(_mm_xor_si128(v, spill), load128(k)));
    spill = _mm_setzero_si128();
    src += 16;
    dst += 16;
    k += 1;
  }
  __m256i wide_spill = _mm256_zextsi128_si256(spill);
  for (blocks /= 2; blocks != 0; blocks--) {
    const __m256i v = load256(src);
    if constexpr (kCopy) store256(dst, v);
    wide = _mm256_xor_si256(wide, multiply256(_mm256_xor_si256(v, wide_spill), load256(k)));
    wide_spill = _mm256_setzero_si256();
    src += 32;
    dst += 32;
    k += 2;
  }
  return reduce(_mm_xor_si128(narrow, add_halves(wide)));
}

template <bool kCopy>
UROCE_CRC_INLINE uint32_t run_long(const Head& head, uint8_t* dst, const uint8_t* src, size_t blocks) {
  __m256i lane[kLanes];
  for (size_t i = 0; i < kLanes; i++) {
    lane[i] = load256(src + 32 * i);
    if constexpr (kCopy) store256(dst + 32 * i, lane[i]);
  }
  const __m128i front = head_at_first_block(head, load128(&kFold1));
  lane[0] = _mm256_xor_si256(lane[0], _mm256_zextsi128_si256(front));
  const __m256i fold = _mm256_broadcastsi128_si256(load128(&kFoldStep));
  for (blocks -= kStepBlocks; blocks >= kStepBlocks; blocks -= kStepBlocks) {
    src += 32 * kLanes;
    dst += 32 * kLanes;
    for (size_t i = 0; i < kLanes; i++) {
      const __m256i v = load256(src + 32 * i);
      if constexpr (kCopy) store256(dst + 32 * i, v);
      lane[i] = _mm256_xor_si256(v, multiply256(lane[i], fold));
    }
  }
  const ConstantPair* k = end_constants(blocks + kStepBlocks - 1);
  __m256i wide = _mm256_setzero_si256();
  for (size_t i = 0; i < kLanes; i++) {
    wide = _mm256_xor_si256(wide, multiply256(lane[i], load256(k + kLaneBlocks * i)));
  }
  const __m128i zero = _mm_setzero_si128();
  return finish<kCopy>(zero, wide, zero, dst + 32 * kLanes, src + 32 * kLanes, blocks);
}

template <bool kCopy>
UROCE_CRC_INLINE uint32_t run(uint32_t state, uint8_t* dst, const uint8_t* src, size_t bytes) {
  if (bytes <= 16) return run_up_to_16<kCopy>(state, dst, src, bytes);
  const size_t head_bytes = bytes % 16;
  const size_t blocks = bytes / 16;
  const Head head = load_head<kCopy>(state, dst, src, head_bytes);
  dst += head_bytes;
  src += head_bytes;
  if (blocks > kDirectBlocks) return run_long<kCopy>(head, dst, src, blocks);
  return finish<kCopy>(head_at_end(head, blocks), _mm256_setzero_si256(), head.spill, dst, src, blocks);
}

}  // namespace

__attribute__((target(UROCE_CRC_TARGET))) uint32_t vpclmul_update(uint32_t state, const void* data, size_t bytes) {
  return run<false>(state, no_destination(data), static_cast<const uint8_t*>(data), bytes);
}

UROCE_GUARDED __attribute__((target(UROCE_CRC_TARGET))) uint32_t vpclmul_copy(uint32_t state, void* dst,
                                                                              const void* src, size_t bytes) {
  return run<true>(state, static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(src), bytes);
}

__attribute__((target(UROCE_CRC_TARGET))) uint32_t vpclmul_header(const uint8_t* l3, bool ipv6) {
  return run_header(l3, ipv6);
}

}  // namespace uroce::crc
