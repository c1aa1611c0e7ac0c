// TIMELY, step by step.
#include "congestion/timely.h"

#include <gmock/gmock.h>

#include "rates.h"

namespace uroce::test {
namespace {

class TimelyTest : public testing::Test {
 protected:
  TimelyTest() {
    config_.algorithm = CongestionAlgorithm::kTimely;
    config_.link_bits_per_second = 10 * kGigabit;
    timely_.start(1024);
  }
  /// A round trip that begins when the last one ended.
  uint64_t sample(int64_t us) {
    now_ = now_ + microseconds(us);
    timely_.on_rtt(microseconds(us), now_);
    return rate();
  }
  uint64_t rate() const { return timely_.limited() ? timely_.rate_bits_per_second() : config_.link_bits_per_second; }

  CongestionConfig config_;
  Timely timely_{config_};
  Instant now_{1'000'000'000};
};

TEST_F(TimelyTest, NotLimitedWhileNothingQueues) {
  for (int i = 0; i < 100; i++) sample(20);
  EXPECT_FALSE(timely_.limited());
}

/// A queue pair that asked for much, and serves READs from then on, measures no round trips any more.
TEST_F(TimelyTest, WithoutRoundTripsTheRateDoubles) {
  sample(400);
  sample(480);
  ASSERT_EQ(rate(), 10 * kMegabit) << "the lowest";
  EXPECT_EQ(timely_.next_change(), now_ + milliseconds(100));
  timely_.advance(now_ + milliseconds(99));
  EXPECT_EQ(rate(), 10 * kMegabit);
  timely_.advance(now_ + milliseconds(100));
  EXPECT_EQ(rate(), 20 * kMegabit);
  timely_.advance(now_ + milliseconds(999));
  EXPECT_EQ(rate(), 5120 * kMegabit);
  timely_.advance(now_ + milliseconds(1000));
  EXPECT_FALSE(timely_.limited());
  EXPECT_EQ(timely_.next_change(), Instant::never());
}

TEST_F(TimelyTest, AGrowingQueueLowersTheRateByItsGradient) {
  sample(100);
  // Difference 10 us, smoothed 0.875 * 10, over 20 us: gradient 0.4375; factor 1 - 0.8 * 0.4375.
  EXPECT_EQ(sample(110), 6'500'000'000u);
  EXPECT_DOUBLE_EQ(timely_.gradient(), 0.4375);
  EXPECT_TRUE(timely_.limited());
}

TEST_F(TimelyTest, AShrinkingQueueRaisesItByStepsThenByLargerOnes) {
  sample(400);
  sample(480);  // 1 - 0.8 * 3.5 is negative: the lowest rate
  EXPECT_EQ(rate(), 10'000'000u);
  uint64_t expected = rate();
  for (int i = 1; i <= 8; i++) {
    const uint64_t got = sample(480 - 40 * i);  // falls, and stays above t_low
    expected += i <= 5 ? 10'000'000 : 50'000'000;
    EXPECT_EQ(got, expected) << i;
  }
}

TEST_F(TimelyTest, BelowTLowAlwaysUp) {
  sample(100);
  const uint64_t low = sample(120);
  sample(30);
  EXPECT_EQ(rate(), low + 10'000'000);
  EXPECT_EQ(sample(45), low + 20'000'000);  // the gradient does not matter
}

TEST_F(TimelyTest, AboveTHighAlwaysDown) {
  sample(1000);
  EXPECT_EQ(sample(1000), 6'000'000'000u);  // 1 - 0.8 * (1 - 500/1000)
  EXPECT_EQ(sample(800), 4'200'000'000u);   // 1 - 0.8 * (1 - 500/800), though it falls
}

TEST_F(TimelyTest, PatchedItIsDrawnToTLow) {
  config_.timely.patched = true;
  sample(100);
  EXPECT_EQ(sample(100), 10'000'000'000u - 40'000'000u + 5'000'000u);  // weight 1/2, error 1: half a step, 0.4 % off
  config_.timely.patched_beta = 0;
  EXPECT_EQ(sample(100), 9'965'000'000u + 5'000'000u);
}

TEST_F(TimelyTest, PatchedTheGradientSaysWhichOfBothItIs) {
  config_.timely.patched = true;
  sample(100);
  // Gradient 0.4375: 2 * 0.4375 + 0.5 is more than 1, so only the distance counts, error 60/50: 1 - 0.008 * 1.2.
  EXPECT_EQ(sample(110), 9'904'000'000u);
  // (0.125 * 8.75 - 0.875 * 40) / 20 is negative: one additive step alone.
  EXPECT_EQ(sample(70), 9'904'000'000u + 10'000'000u);
}

TEST_F(TimelyTest, OneUpdateARoundTrip) {
  sample(100);
  const uint64_t once = sample(110);
  for (int i = 0; i < 10; i++) {
    now_ = now_ + microseconds(5);
    timely_.on_rtt(microseconds(130), now_);  // sent before the last update
  }
  EXPECT_EQ(rate(), once);
}

}  // namespace
}  // namespace uroce::test
