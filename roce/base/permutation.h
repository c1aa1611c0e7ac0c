// A keyed permutation of small integers: numbers that look random, are unique, and map back in a few instructions.
//
// A balanced Feistel network of four rounds over `kBits` bits. It keeps slot numbers from being guessed; it is not a
// cipher and protects no data.
#pragma once

#include <cstdint>

namespace uroce {

template <unsigned kBits>
class Permutation {
  static_assert(kBits % 2 == 0 && kBits <= 32);
  static constexpr unsigned kHalf = kBits / 2;
  static constexpr uint32_t kHalfMask = (1u << kHalf) - 1;

 public:
  template <typename Random>
  explicit Permutation(Random& random) {
    for (uint32_t& k : keys_) k = random.next_u32();
  }

  uint32_t forward(uint32_t v) const {
    uint32_t left = v >> kHalf;
    uint32_t right = v & kHalfMask;
    for (const uint32_t k : keys_) {
      const uint32_t next = left ^ round(right, k);
      left = right;
      right = next;
    }
    return (left << kHalf) | right;
  }

  uint32_t backward(uint32_t v) const {
    uint32_t left = v >> kHalf;
    uint32_t right = v & kHalfMask;
    for (unsigned i = 4; i-- > 0;) {
      const uint32_t previous = right ^ round(left, keys_[i]);
      right = left;
      left = previous;
    }
    return (left << kHalf) | right;
  }

 private:
  static uint32_t round(uint32_t half, uint32_t key) {
    const uint32_t x = (half ^ key) * 0x9E3779B1u;
    return (x ^ (x >> kShift)) & kHalfMask;
  }
  // Which bits of the product are folded onto its low ones. With six bits, those from 15 on grow as the low ones do,
  // and neighbours would often stay neighbours.
  static constexpr unsigned kShift = kHalf <= 6 ? 20 : 15;

  uint32_t keys_[4] = {};
};

}  // namespace uroce
