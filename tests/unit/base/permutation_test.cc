#include "base/permutation.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

namespace uroce {
namespace {

TEST(Permutation, OfTwelveBitsIsBijectiveAndScatters) {
  unsigned close = 0;
  for (uint64_t seed = 1; seed <= 100; seed++) {
    SeededRandom random(seed);
    const Permutation<12> p(random);
    std::vector<bool> seen(1u << 12);
    for (uint32_t v = 0; v < seen.size(); v++) {
      const uint32_t w = p.forward(v);
      ASSERT_LT(w, seen.size());
      ASSERT_FALSE(seen[w]) << v;
      seen[w] = true;
      ASSERT_EQ(p.backward(w), v);
      const int64_t step = int64_t{p.forward((v + 1) % 4096)} - int64_t{w};
      if (step >= -4 && step <= 4) close++;
    }
  }
  // Of 409600 pairs chance alone brings 800 so close.
  EXPECT_LT(close, 1600u);
}

TEST(Permutation, OfSixteenBitsIsBijective) {
  SeededRandom random(1);
  const Permutation<16> p(random);
  std::vector<bool> seen(1u << 16);
  for (uint32_t v = 0; v < seen.size(); v++) {
    const uint32_t w = p.forward(v);
    ASSERT_LT(w, seen.size());
    ASSERT_FALSE(seen[w]) << v;
    seen[w] = true;
    ASSERT_EQ(p.backward(w), v);
  }
}

TEST(Permutation, OfTwentyFourBitsIsBijective) {
  SeededRandom random(2);
  const Permutation<24> p(random);
  std::vector<bool> seen(1u << 24);
  for (uint32_t v = 0; v < seen.size(); v++) {
    const uint32_t w = p.forward(v);
    ASSERT_LT(w, seen.size());
    ASSERT_FALSE(seen[w]) << v;
    seen[w] = true;
  }
  for (uint32_t v = 0; v < seen.size(); v += 997) ASSERT_EQ(p.backward(p.forward(v)), v);
}

TEST(Permutation, OfThirtyTwoBitsMapsBack) {
  SeededRandom random(3);
  const Permutation<32> p(random);
  for (int i = 0; i < 100000; i++) {
    const uint32_t v = random.next_u32();
    ASSERT_EQ(p.backward(p.forward(v)), v);
    ASSERT_EQ(p.forward(p.backward(v)), v);
  }
}

TEST(Permutation, KeysMatterAndNeighboursScatter) {
  SeededRandom random_a(4);
  SeededRandom random_b(5);
  const Permutation<24> a(random_a);
  const Permutation<24> b(random_b);
  unsigned same = 0;
  unsigned close = 0;
  for (uint32_t v = 0; v < 1000; v++) {
    if (a.forward(v) == b.forward(v)) same++;
    const int64_t step = int64_t{a.forward(v + 1)} - int64_t{a.forward(v)};
    if (step > -256 && step < 256) close++;
  }
  EXPECT_LT(same, 5u);
  EXPECT_LT(close, 20u);
}

}  // namespace
}  // namespace uroce
