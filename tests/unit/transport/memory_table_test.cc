#include "transport/memory_table.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace uroce::test {
namespace {

/// A window that is bound to one region after another keeps only the last of them in use.
TEST(MemoryTableTest, AWindowHoldsOnlyTheRegionOfItsLastBind) {
  SeededRandom random(1);
  MemoryTable table(16, random, 4);
  constexpr PdId kPd = 1;
  uint8_t bytes[64] = {};
  uint32_t key = table.allocate_window(kPd, false, nullptr);
  uint32_t before = 0;
  for (int i = 0; i < 3; i++) {
    const uint32_t region = table.register_region(kPd, bytes, sizeof bytes, 0, kLocalWrite | kMwBind);
    const uint32_t next = (key & ~0xFFu) | ((key + 1) & 0xFF);
    ASSERT_NE(key = table.bind_window({key, next, region, 0, sizeof bytes, kRemoteWrite}, kPd, 0), 0u);
    EXPECT_FALSE(table.deregister(region));
    EXPECT_TRUE(before == 0 || table.deregister(before)) << i;
    before = region;
  }
  EXPECT_TRUE(table.free_window(key));
  EXPECT_TRUE(table.deregister(before));
}

/// Recently used keys are cached, which must not keep one valid.
TEST(MemoryTableTest, AKeyThatWasJustUsedEndsWithItsRegion) {
  SeededRandom random(1);
  MemoryTable table(2, random, 4);
  constexpr PdId kPd = 1;
  uint8_t bytes[64] = {};
  uint8_t* memory = nullptr;
  const auto allowed = [&](uint32_t key) { return table.check(key, kPd, 0, 8, kLocalWrite, 0, memory); };
  uint32_t before = 0;
  for (int i = 0; i < 100; i++) {
    const uint32_t key = table.register_region(kPd, bytes, sizeof bytes, 0, kLocalWrite);
    ASSERT_NE(key, 0u);
    for (int again = 0; again < 2; again++) EXPECT_EQ(allowed(key), AccessCheck::kOk);
    EXPECT_EQ(allowed(before), AccessCheck::kBadKey);
    EXPECT_EQ(allowed(key ^ 1), AccessCheck::kBadKey);
    ASSERT_TRUE(table.deregister(key));
    EXPECT_EQ(allowed(key), AccessCheck::kBadKey);
    before = key;
  }
}

}  // namespace
}  // namespace uroce::test
