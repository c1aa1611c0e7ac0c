// Slots and their numbers, with and without blocks.
#include "engine/qp_numbers.h"
#include "base/random.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/qpn_blocks.h"
#include "listed_blocks.h"

namespace uroce::test {
namespace {

TEST(QpNumbers, WithoutBlocksAllSlotsHaveNumbersAtOnce) {
  SeededRandom random(1);
  QpNumbers numbers(1000, random, nullptr);
  EXPECT_EQ(numbers.extend(), 1000u);
  EXPECT_EQ(numbers.extend(), 1000u);
  std::set<uint32_t> seen;
  for (const uint32_t slot : {0u, 1u, 255u, 256u, 999u}) {
    for (uint32_t generation = 0; generation < 256; generation++) {
      const uint32_t qpn = numbers.number(slot, generation);
      EXPECT_TRUE(seen.insert(qpn).second);
      EXPECT_EQ(numbers.slot_of(qpn), slot);
      EXPECT_TRUE(numbers.owns(qpn));
    }
    EXPECT_EQ(numbers.number(slot, 0), numbers.number(slot, 256));
  }
}

TEST(QpNumbers, MoreSlotsHaveFewerGenerations) {
  SeededRandom random(1);
  QpNumbers numbers(QpNumbers::kSlotsMax, random, nullptr);
  std::set<uint32_t> seen;
  for (const uint32_t slot : {0u, 65535u, 65536u, QpNumbers::kSlotsMax - 1}) {
    for (uint32_t generation = 0; generation < 128; generation++) {
      const uint32_t qpn = numbers.number(slot, generation);
      EXPECT_TRUE(seen.insert(qpn).second);
      EXPECT_EQ(numbers.slot_of(qpn), slot);
    }
    EXPECT_EQ(numbers.number(slot, 0), numbers.number(slot, 128));
  }
}

TEST(QpNumbers, ABlockIsFullyUsed) {
  SeededRandom random(1);
  ListedBlocks blocks({3, 2});
  QpNumbers numbers(300, random, &blocks);
  EXPECT_EQ(numbers.slot_of(3 << kQpnBlockBits), QpNumbers::kNone) << "no slot has a number yet";
  EXPECT_EQ(numbers.extend(), 256u);
  EXPECT_EQ(numbers.extend(), 300u) << "as many as there are slots";
  EXPECT_EQ(numbers.extend(), 300u);
  std::set<uint32_t> seen;
  for (uint32_t slot = 0; slot < 256; slot++) {
    for (uint32_t generation = 16; generation < 32; generation++) {
      const uint32_t qpn = numbers.number(slot, generation);
      EXPECT_EQ(qpn >> kQpnBlockBits, 3u);
      EXPECT_EQ(numbers.slot_of(qpn), slot);
      seen.insert(qpn);
    }
  }
  EXPECT_EQ(seen.size(), kQpnBlockSize);
  EXPECT_EQ(numbers.number(299, 5) >> kQpnBlockBits, 2u);
  EXPECT_EQ(numbers.slot_of(numbers.number(299, 5)), 299u);
}

TEST(QpNumbers, NeighboursInABlockAreScattered) {
  SeededRandom random(1);
  ListedBlocks blocks({3});
  QpNumbers numbers(256, random, &blocks);
  ASSERT_EQ(numbers.extend(), 256u);
  int near = 0;
  for (uint32_t slot = 1; slot < 256; slot++) {
    const uint32_t apart = numbers.number(slot, 0) - numbers.number(slot - 1, 0);
    near += apart + 4 < 9 ? 1 : 0;
  }
  EXPECT_LT(near, 10);
}

TEST(QpNumbers, ABlockThatCannotBeOursIsNone) {
  SeededRandom random(1);
  ListedBlocks blocks({0, kQpnBlocks - 1, kQpnBlocks + 5, 1, 1, kQpnBlocks - 2});
  QpNumbers numbers(1000, random, &blocks);
  for (const uint32_t slots : {0u, 0u, 0u, 256u, 256u, 512u}) EXPECT_EQ(numbers.extend(), slots);
  EXPECT_EQ(numbers.extend(), 512u) << "the list has ended";
  EXPECT_TRUE(numbers.owns(1 << kQpnBlockBits));
  EXPECT_FALSE(numbers.owns(0));
  EXPECT_FALSE(numbers.owns(0xFFFFFF));
}

}  // namespace
}  // namespace uroce::test
