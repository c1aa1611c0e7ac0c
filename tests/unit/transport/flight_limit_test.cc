// How many packets may be in flight, and which of them ask for an answer.
#include "transport/flight_limit.h"

#include <gtest/gtest.h>

#include <vector>

namespace uroce::test {
namespace {

constexpr uint32_t kNoCap = UINT32_MAX;

/// The most packets that may be in flight.
uint32_t limit_of(const FlightLimit& limit, uint32_t cap = kNoCap) {
  uint32_t open = 0;
  while (limit.allows(open, cap)) open++;
  return open;
}

class FlightLimitTest : public testing::Test {
 protected:
  FlightLimitTest() { limit_.start(); }
  /// Which of the next `packets` packets ask for an ACK when `open` are in flight before the first.
  std::vector<uint32_t> who_asks(uint32_t packets, uint32_t open = 0, uint32_t cap = kNoCap) {
    std::vector<uint32_t> asked;
    for (uint32_t i = 0; i < packets; i++) {
      if (limit_.asks(open + i, cap, false)) asked.push_back(i);
    }
    return asked;
  }

  FlightLimit limit_{128, 32};
};

TEST_F(FlightLimitTest, BeginsWithTheWholeWindow) { EXPECT_EQ(limit_of(limit_), 128u); }

TEST_F(FlightLimitTest, LossHalvesItDownToAFloor) {
  std::vector<uint32_t> after;
  for (int i = 0; i < 6; i++) {
    limit_.on_loss();
    after.push_back(limit_of(limit_));
  }
  EXPECT_EQ(after, (std::vector<uint32_t>{64, 32, 16, 8, 8, 8}));
}

TEST_F(FlightLimitTest, AWindowBelowTheFloorStaysWhole) {
  FlightLimit small(5, 32);
  small.start();
  small.on_loss();
  EXPECT_EQ(limit_of(small), 5u);
}

TEST_F(FlightLimitTest, ProgressAddsOneUpToTheWindow) {
  limit_.on_loss();
  limit_.on_progress();
  EXPECT_EQ(limit_of(limit_), 65u);
  for (int i = 0; i < 200; i++) limit_.on_progress();
  EXPECT_EQ(limit_of(limit_), 128u);
}

TEST_F(FlightLimitTest, ANewConnectionHasTheWholeWindowAgain) {
  limit_.on_loss();
  limit_.start();
  EXPECT_EQ(limit_of(limit_), 128u);
}

TEST_F(FlightLimitTest, CongestionControlMayAllowLess) { EXPECT_EQ(limit_of(limit_, 3), 3u); }

TEST_F(FlightLimitTest, AboveAShrunkenCapOnePacketMayGoToAsk) {
  ASSERT_FALSE(limit_.asks(0, kNoCap, false));
  EXPECT_TRUE(limit_.allows(1, 1)) << "nobody asked for an answer to the first";
  EXPECT_TRUE(limit_.asks(1, 1, false));
  EXPECT_FALSE(limit_.allows(2, 1));
}

TEST_F(FlightLimitTest, EveryThirtySecondPacketAsks) { EXPECT_EQ(who_asks(100), (std::vector<uint32_t>{31, 63, 95})); }

TEST_F(FlightLimitTest, AsksTwiceInASmallWindow) {
  limit_.on_loss();
  limit_.on_loss();
  limit_.on_loss();  // 16 packets
  EXPECT_EQ(who_asks(16), (std::vector<uint32_t>{7, 15}));
  EXPECT_EQ(who_asks(9, 0, 10), (std::vector<uint32_t>{4})) << "half of the cap";
}

TEST_F(FlightLimitTest, WhatClosesTheCapAsks) { EXPECT_EQ(who_asks(3, 97, 100), (std::vector<uint32_t>{2})); }

TEST_F(FlightLimitTest, WhatMustAskAsksAndCountsAgainFromThere) {
  ASSERT_EQ(who_asks(10), std::vector<uint32_t>());
  EXPECT_FALSE(limit_.newest_asked());
  EXPECT_TRUE(limit_.asks(10, kNoCap, true));
  EXPECT_TRUE(limit_.newest_asked());
  EXPECT_EQ(who_asks(32, 11), std::vector<uint32_t>{31});
}

TEST_F(FlightLimitTest, ARewindBeginsToCountAgain) {
  ASSERT_EQ(who_asks(31), std::vector<uint32_t>());
  limit_.on_rewind();
  EXPECT_TRUE(limit_.newest_asked());
  EXPECT_EQ(who_asks(32), std::vector<uint32_t>{31});
}

}  // namespace
}  // namespace uroce::test
