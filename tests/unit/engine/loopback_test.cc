// Frames to ourselves, in order.
#include "engine/loopback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace uroce::test {
namespace {

constexpr uint32_t kLongest = 100;

void push_bytes(Loopback& loopback, uint32_t bytes, uint8_t first) {
  std::vector<uint8_t> frame(bytes);
  std::iota(frame.begin(), frame.end(), first);
  loopback.push({frame.data(), bytes, bytes, nullptr});
}

TEST(LoopbackQueue, IsClosedAtFirst) {
  Loopback loopback(kLongest);
  EXPECT_FALSE(loopback.is_open());
  EXPECT_FALSE(loopback.full());
  EXPECT_EQ(loopback.size(), 0u);
}

TEST(LoopbackQueue, GivesCopiesInOrder) {
  Loopback loopback(kLongest);
  loopback.open();
  EXPECT_TRUE(loopback.is_open());
  push_bytes(loopback, kLongest, 1);
  push_bytes(loopback, 3, 7);
  loopback.open();  // already open: nothing is lost
  ASSERT_EQ(loopback.size(), 2u);
  EXPECT_EQ(loopback.front().size(), kLongest);
  EXPECT_EQ(loopback.front()[99], 100);
  loopback.pop();
  ASSERT_EQ(loopback.front().size(), 3u);
  EXPECT_EQ(loopback.front()[0], 7);
  loopback.pop();
  EXPECT_EQ(loopback.size(), 0u);
}

TEST(LoopbackQueue, GoesRoundWhenItHasBeenFull) {
  Loopback loopback(kLongest);
  loopback.open();
  for (uint32_t i = 0; i < Loopback::kFrames; i++) {
    EXPECT_FALSE(loopback.full());
    push_bytes(loopback, 1 + i % kLongest, static_cast<uint8_t>(i));
  }
  EXPECT_TRUE(loopback.full());
  loopback.pop();
  EXPECT_FALSE(loopback.full());
  push_bytes(loopback, 5, 200);
  for (uint32_t i = 1; i < Loopback::kFrames; i++, loopback.pop()) {
    ASSERT_EQ(loopback.front().size(), 1 + i % kLongest);
    ASSERT_EQ(loopback.front()[0], static_cast<uint8_t>(i));
  }
  EXPECT_EQ(loopback.front()[4], 204);
}

TEST(LoopbackQueueDeathTest, TakesNoFrameThatDoesNotFit) {
  Loopback loopback(kLongest);
  EXPECT_DEATH(push_bytes(loopback, 1, 0), "frames to ourselves have a path to ourselves");
  loopback.open();
  EXPECT_DEATH(push_bytes(loopback, kLongest + 1, 0), "a frame fits the loopback");
}

}  // namespace
}  // namespace uroce::test
