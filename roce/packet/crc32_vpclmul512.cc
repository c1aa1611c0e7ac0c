// 512-bit carry-less multiplication: four registers of four blocks each, 256 bytes a step. The odd bytes of a message
// come first, in one register with zero bytes in front, so that there is no tail and a short message is one register.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the "undefined" operand in its own AVX-512 header for a use of uninitialised memory.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define UROCE_CRC_TARGET "vpclmulqdq,pclmul,avx2,avx512f,avx512vl,avx512bw,avx512vbmi2"
#include "packet/crc32_kernels.h"
#include "packet/crc32_xmm.h"

namespace uroce::crc {
namespace {

constexpr size_t kWide = 64;  // bytes of a register
constexpr size_t kWideBlocks = kWide / 16;
constexpr size_t kLanes = 4;
constexpr size_t kDirect = kEndBlocks / kWideBlocks;  // registers; up to this many, every one goes straight to the end
alignas(16) constexpr ConstantPair kFold1 = fold_constants(512);
alignas(16) constexpr ConstantPair kFoldStep = fold_constants(512 * kLanes);

UROCE_CRC_INLINE __m512i load512(const void* p) { return _mm512_loadu_si512(p); }
UROCE_CRC_INLINE void store512(void* p, __m512i v) { _mm512_storeu_si512(p, v); }
UROCE_CRC_INLINE __m512i repeat(const ConstantPair& k) { return _mm512_broadcast_i32x4(load128(&k)); }
UROCE_CRC_INLINE __m512i low_word(uint32_t v) { return _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(v))); }

/// sum + H * k.low + L * k.high, in each 128-bit part
UROCE_CRC_INLINE __m512i add_product(__m512i sum, __m512i v, __m512i k) {
  constexpr int kAdd3 = 0x96;  // a ^ b ^ c
  return _mm512_ternarylogic_epi64(sum, _mm512_clmulepi64_epi128(v, k, 0x00), _mm512_clmulepi64_epi128(v, k, 0x11),
                                   kAdd3);
}

UROCE_CRC_INLINE __m128i add_quarters(__m512i v) {
  const __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
  return _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/// The end constants of a register that is followed by `following` others; in memory, those of the others come next.
UROCE_CRC_INLINE const ConstantPair* wide_end_constants(size_t following) {
  return end_constants(kWideBlocks * following + kWideBlocks - 1);
}

/// Adds the last `count` registers of the message.
template <bool kCopy>
UROCE_CRC_INLINE uint32_t finish(__m512i sum, uint8_t* dst, const uint8_t* src, size_t count) {
  const ConstantPair* k = wide_end_constants(count) + kWideBlocks;
  for (; count != 0; count--) {
    const __m512i v = load512(src);
    if constexpr (kCopy) store512(dst, v);
    sum = add_product(sum, v, load512(k));
    src += kWide;
    dst += kWide;
    k += kWideBlocks;
  }
  return reduce(add_quarters(sum));
}

template <bool kCopy>
UROCE_CRC_INLINE uint32_t run_direct(__m512i head, __m512i spill, uint8_t* dst, const uint8_t* src, size_t count) {
  const ConstantPair* k = wide_end_constants(count);
  const __m512i v = load512(src);
  if constexpr (kCopy) store512(dst, v);
  __m512i sum = add_product(_mm512_setzero_si512(), head, load512(k));
  sum = add_product(sum, _mm512_xor_si512(v, spill), load512(k + kWideBlocks));
  return finish<kCopy>(sum, dst + kWide, src + kWide, count - 1);
}

template <bool kCopy>
UROCE_CRC_INLINE uint32_t run_long(__m512i head, __m512i spill, uint8_t* dst, const uint8_t* src, size_t count) {
  __m512i lane[kLanes];
  for (size_t i = 0; i < kLanes; i++) {
    lane[i] = load512(src + kWide * i);
    if constexpr (kCopy) store512(dst + kWide * i, lane[i]);
  }
  lane[0] = add_product(_mm512_xor_si512(lane[0], spill), head, repeat(kFold1));
  const __m512i fold = repeat(kFoldStep);
  for (count -= kLanes; count >= kLanes; count -= kLanes) {
    src += kWide * kLanes;
    dst += kWide * kLanes;
    for (size_t i = 0; i < kLanes; i++) {
      const __m512i v = load512(src + kWide * i);
      if constexpr (kCopy) store512(dst + kWide * i, v);
      lane[i] = add_product(v, lane[i], fold);
    }
  }
  const ConstantPair* k = wide_end_constants(count + kLanes - 1);
  __m512i sum = _mm512_setzero_si512();
  for (size_t i = 0; i < kLanes; i++) sum = add_product(sum, lane[i], load512(k + kWideBlocks * i));
  return finish<kCopy>(sum, dst + kWide * kLanes, src + kWide * kLanes, count);
}

template <bool kCopy>
UROCE_CRC_INLINE uint32_t run(uint32_t state, uint8_t* dst, const uint8_t* src, size_t bytes) {
  if (bytes <= 16) return run_up_to_16<kCopy>(state, dst, src, bytes);
  const size_t head_bytes = (bytes - 1) % kWide + 1;
  const size_t count = (bytes - 1) / kWide;  // registers behind the head
  const __mmask64 head_mask = ~__mmask64{0} >> (kWide - head_bytes);
  const __mmask64 end_mask = ~__mmask64{0} << (kWide - head_bytes);
  // The part of the state that reaches beyond a head that is shorter than the state.
  const uint32_t spill = head_bytes < sizeof state ? state >> (8 * head_bytes) : 0;
  __m512i head;
  if (count == 0) {
    head = _mm512_maskz_loadu_epi8(head_mask, src);
    if constexpr (kCopy) _mm512_mask_storeu_epi8(dst, head_mask, head);
  } else {
    head = load512(src);
    if constexpr (kCopy) store512(dst, head);
  }
  head = _mm512_xor_si512(head, low_word(state));
  if (head_bytes != kWide) head = _mm512_maskz_expand_epi8(end_mask, head);
  if (count == 0) {
    return spill ^ reduce(add_quarters(add_product(_mm512_setzero_si512(), head, load512(wide_end_constants(0)))));
  }
  src += head_bytes;
  dst += head_bytes;
  if (count >= kDirect) return run_long<kCopy>(head, low_word(spill), dst, src, count);
  return run_direct<kCopy>(head, low_word(spill), dst, src, count);
}

}  // namespace

__attribute__((target(UROCE_CRC_TARGET))) uint32_t vpclmul512_update(uint32_t state, const void* data, size_t bytes) {
  return run<false>(state, no_destination(data), static_cast<const uint8_t*>(data), bytes);
}

UROCE_GUARDED __attribute__((target(UROCE_CRC_TARGET))) uint32_t vpclmul512_copy(uint32_t state, void* dst,
                                                                                 const void* src, size_t bytes) {
  return run<true>(state, static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(src), bytes);
}

__attribute__((target(UROCE_CRC_TARGET))) uint32_t vpclmul512_header(const uint8_t* l3, bool ipv6) {
  return run_header(l3, ipv6);
}

}  // namespace uroce::crc
