// The target delay: where it settles, and how fast it moves.
#include "congestion/swift.h"

#include <gmock/gmock.h>

#include "rates.h"

namespace uroce::test {
namespace {

class SwiftTest : public testing::Test {
 protected:
  SwiftTest() {
    config_.algorithm = CongestionAlgorithm::kSwift;
    config_.link_bits_per_second = 10 * kGigabit;
    config_.swift.fs_range = 0;
    swift_.start(1024);
  }
  void sample(int64_t us) {
    now_ = now_ + microseconds(us);
    swift_.on_rtt(microseconds(us), now_);
  }
  CongestionConfig config_;
  Swift swift_{config_};
  Instant now_{1'000'000'000};
};

TEST_F(SwiftTest, StartsAtTheHighestRate) {
  sample(10);
  EXPECT_FALSE(swift_.limited());
  EXPECT_EQ(swift_.window_bytes(), 0u);
}

TEST_F(SwiftTest, AboveTheTargetItShrinksByTheExcess) {
  sample(50);  // 10G for 50 us: 61.04 packets; half of the delay is excess: times 1 - 0.8 * 0.5
  EXPECT_NEAR(swift_.window_packets(), 61.035 * 0.6, 0.01);
  EXPECT_NEAR(static_cast<double>(swift_.rate_bits_per_second()), 6e9, 1e6);
  EXPECT_NEAR(static_cast<double>(swift_.window_bytes()), 61.035 * 0.6 * 1024, 1);
}

TEST_F(SwiftTest, NoDecreaseTakesMoreThanMaxMdf) {
  sample(1000);
  const double before = swift_.window_packets();
  sample(1000);
  EXPECT_NEAR(swift_.window_packets(), before / 2, 1e-9);
}

TEST_F(SwiftTest, BelowTheTargetItGrowsByAPacketARoundTrip) {
  for (int i = 0; i < 5; i++) sample(100);
  const double before = swift_.window_packets();
  sample(20);
  EXPECT_NEAR(swift_.window_packets(), before + 1, 1e-9);
  swift_.on_rtt(microseconds(20), now_ + microseconds(5));  // sent before that: the same round trip
  EXPECT_NEAR(swift_.window_packets(), before + 1, 1e-9);
}

/// A queue pair that asked for much, and serves READs from then on, measures no round trips any more.
TEST_F(SwiftTest, WithoutRoundTripsTheRateDoubles) {
  for (int i = 0; i < 200; i++) sample(400);
  EXPECT_EQ(swift_.rate_bits_per_second(), 10 * kMegabit) << "the lowest";
  EXPECT_EQ(swift_.next_change(), now_ + milliseconds(100));
  swift_.advance(now_ + milliseconds(99));
  EXPECT_EQ(swift_.rate_bits_per_second(), 10 * kMegabit);
  swift_.advance(now_ + milliseconds(100));
  EXPECT_NEAR(static_cast<double>(swift_.rate_bits_per_second()), 20e6, 1);
  swift_.advance(now_ + milliseconds(300));
  EXPECT_NEAR(static_cast<double>(swift_.rate_bits_per_second()), 80e6, 1);
  swift_.on_rtt(microseconds(400), now_ + milliseconds(399));
  const double cut = static_cast<double>(swift_.rate_bits_per_second());
  EXPECT_LT(cut, 80e6) << "a sample counts as ever";
  swift_.advance(now_ + milliseconds(498));
  EXPECT_EQ(static_cast<double>(swift_.rate_bits_per_second()), cut) << "and the time begins anew";
  swift_.on_loss(now_ + milliseconds(498));
  swift_.advance(now_ + milliseconds(597));
  EXPECT_LE(static_cast<double>(swift_.rate_bits_per_second()), cut) << "so it does with a loss";
  swift_.advance(now_ + milliseconds(3000));
  EXPECT_FALSE(swift_.limited());
  EXPECT_EQ(swift_.next_change(), Instant::never());
}

/// What is slow has no samples for long, and is not quiet.
TEST_F(SwiftTest, ALongRoundTripIsNoSilence) {
  for (int i = 0; i < 50; i++) sample(80'000);
  ASSERT_TRUE(swift_.limited());
  EXPECT_EQ(swift_.next_change(), now_ + milliseconds(320)) << "four of them";
  config_.dcqcn.rpg_min_rate = 1;
  for (int i = 0; i < 200; i++) sample(400);
  ASSERT_EQ(swift_.rate_bits_per_second(), kMegabit);
  EXPECT_EQ(swift_.next_change(), now_ + nanoseconds(524'288'000)) << "64 packets at a megabit per second";
}

TEST_F(SwiftTest, BelowAPacketTheWindowIsARate) {
  for (int i = 0; i < 200; i++) sample(400);
  EXPECT_LT(swift_.window_packets(), 1);
  EXPECT_EQ(swift_.window_bytes(), 1024u);
  EXPECT_EQ(swift_.rate_bits_per_second(), 10'000'000u);  // the lowest
}

TEST_F(SwiftTest, SmallWindowsHaveALargerTarget) {
  config_.swift.fs_range = 50;
  swift_.start(1024);
  EXPECT_EQ(swift_.target(), microseconds(25));
  sample(1000);  // far above the target
  const Duration large = swift_.target();
  for (int i = 0; i < 100; i++) sample(1000);
  EXPECT_GT(swift_.target(), large);
  EXPECT_EQ(swift_.target(), microseconds(75));
}

TEST_F(SwiftTest, ALossCountsOnceARoundTrip) {
  sample(50);
  const double before = swift_.window_packets();
  swift_.on_loss(now_ + microseconds(60));
  swift_.on_loss(now_ + microseconds(61));
  EXPECT_NEAR(swift_.window_packets(), before / 2, 1e-9);
}

}  // namespace
}  // namespace uroce::test
