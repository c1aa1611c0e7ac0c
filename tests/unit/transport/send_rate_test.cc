// What becomes of the rate that congestion control names: a pacer, and a cap on what is in flight.
#include "transport/send_rate.h"
#include "congestion/congestion_control.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

constexpr Instant kBegin{1'000'000'000};

class SendRateTest : public testing::Test {
 protected:
  SendRateTest() {
    config_.algorithm = CongestionAlgorithm::kDcqcn;
    config_.link_bits_per_second = 10'000'000'000;
    config_.burst_bytes = 2048;
  }
  /// Sends CNPs until the rate is a gigabit per second or less.
  void slow_down(SendRate& rate) const {
    for (int i = 0; i < 200 && (!rate.limited() || rate.control()->rate_bits_per_second() > 1'000'000'000); i++) {
      EXPECT_TRUE(rate.on_cnp(kBegin + microseconds(50 * i)));
    }
  }

  CongestionConfig config_;
};

TEST_F(SendRateTest, WithoutCongestionControlItIsInert) {
  SendRate rate(config_, false);
  rate.start(1024);
  rate.on_rtt(microseconds(10), kBegin);
  rate.on_loss(kBegin);
  rate.settle(kBegin);
  EXPECT_FALSE(rate.on_cnp(kBegin));
  EXPECT_FALSE(rate.limited());
  EXPECT_FALSE(rate.closed());
  EXPECT_EQ(rate.window_cap(), UINT32_MAX);
  EXPECT_EQ(rate.control(), nullptr);
}

TEST_F(SendRateTest, BeginsWithoutALimit) {
  SendRate rate(config_, true);
  rate.start(1024);
  EXPECT_FALSE(rate.limited());
}

TEST_F(SendRateTest, ClosesAfterABurstAndOpensInTime) {
  SendRate rate(config_, true);
  rate.start(1024);
  slow_down(rate);
  ASSERT_TRUE(rate.limited());
  const Instant now = kBegin + milliseconds(11);
  rate.follow(now);
  ASSERT_FALSE(rate.closed());
  uint32_t sent = 0;
  for (; !rate.closed() && sent < 100; sent++) rate.on_sent(1024, now);
  EXPECT_EQ(sent, 3u) << "a burst of 2048 bytes, and one packet that is let go whole";
  const Instant open = rate.next_timeout();
  EXPECT_GT(open, now);
  rate.follow({open.ns - 1});
  EXPECT_TRUE(rate.closed());
  rate.follow(now + milliseconds(1));
  EXPECT_FALSE(rate.closed());
}

TEST_F(SendRateTest, ANewConnectionIsNotLimited) {
  SendRate rate(config_, true);
  rate.start(1024);
  slow_down(rate);
  ASSERT_TRUE(rate.limited());
  rate.start(1024);
  EXPECT_FALSE(rate.limited());
  EXPECT_FALSE(rate.closed());
}

TEST_F(SendRateTest, AWindowInBytesBecomesWholePackets) {
  config_.has_win = true;
  config_.var_win = false;
  config_.base_rtt = microseconds(10);  // at 10 Gb/s: 12,500 bytes
  SendRate rate(config_, true);
  rate.start(1024);
  EXPECT_EQ(rate.window_cap(), 13u);
  rate.start(4096);
  EXPECT_EQ(rate.window_cap(), 4u);
}

TEST_F(SendRateTest, NewsTakeEffectWhenTheyAreSettled) {
  config_.has_win = true;
  config_.var_win = false;
  config_.base_rtt = Duration{0};  // the shortest one that was measured
  SendRate rate(config_, true);
  rate.start(1024);
  rate.on_rtt(std::nullopt, kBegin);
  rate.settle(kBegin);
  EXPECT_EQ(rate.window_cap(), UINT32_MAX);
  rate.on_rtt(microseconds(10), kBegin);
  EXPECT_EQ(rate.window_cap(), UINT32_MAX);
  rate.settle(kBegin);
  EXPECT_EQ(rate.window_cap(), 13u);
}

TEST_F(SendRateTest, AProgramsOwnLimitNeedsNoCongestionControl) {
  SendRate rate(config_, false);
  rate.start(1024);
  rate.set_limit(8'000'000, kBegin);  // a byte in a microsecond
  ASSERT_TRUE(rate.limited());
  while (!rate.closed()) rate.on_sent(1000, kBegin);
  // A burst of 2048 bytes is free, and packets are not split.
  EXPECT_EQ(rate.next_timeout(), kBegin + microseconds(952));
  rate.follow(rate.next_timeout());
  EXPECT_FALSE(rate.closed());
  EXPECT_EQ(rate.window_cap(), UINT32_MAX);
  rate.set_limit(0, kBegin);
  EXPECT_FALSE(rate.limited());
}

TEST_F(SendRateTest, TheLowerOfTwoLimitsHolds) {
  SendRate rate(config_, true);
  rate.start(1024);
  slow_down(rate);
  const Instant now = kBegin + milliseconds(11);
  const auto packets_in_a_millisecond = [&] {
    uint32_t sent = 0;
    for (Instant t = now + milliseconds(1); t < now + milliseconds(2); t = t + microseconds(1)) {
      rate.follow(t);
      if (!rate.closed()) rate.on_sent(1000, t), sent++;
    }
    return sent;
  };
  rate.set_limit(8'000'000, now);
  EXPECT_LE(packets_in_a_millisecond(), 4u);
  rate.set_limit(uint64_t{1} << 40, now);
  EXPECT_GT(packets_in_a_millisecond(), 20u);  // congestion control's rate
  EXPECT_TRUE(rate.limited());
}

}  // namespace
}  // namespace uroce::test
