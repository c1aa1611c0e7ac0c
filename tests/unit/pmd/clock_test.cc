// The card's clock, which goes on between two reads, and applies what it is told with a delay.
#include "tests/unit/pmd/driver_rig.h"

namespace mqnic::test {
namespace {

class Clock : public DriverRig {
 protected:
  static constexpr int64_t kSecond = 1'000'000'000;

  int64_t read_time() {
    timespec now{};
    EXPECT_EQ(rte_eth_timesync_read_time(port, &now), 0);
    return now.tv_sec * kSecond + now.tv_nsec;
  }
};

TEST_F(Clock, IsSetReadAndAdjusted) {
  attach_and_start();
  const timespec start{1'700'000'000, 250};
  ASSERT_EQ(rte_eth_timesync_write_time(port, &start), 0);
  timespec now{};
  ASSERT_EQ(rte_eth_timesync_read_time(port, &now), 0);
  EXPECT_EQ(now.tv_sec, 1'700'000'000);
  EXPECT_LT(now.tv_nsec, 1'000'000);
  ASSERT_EQ(rte_eth_timesync_adjust_time(port, 5'000'000'000), 0);
  ASSERT_EQ(rte_eth_timesync_read_time(port, &now), 0);
  EXPECT_EQ(now.tv_sec, 1'700'000'005);
  ASSERT_EQ(rte_eth_timesync_adjust_time(port, -6'000'000'000), 0);
  ASSERT_EQ(rte_eth_timesync_read_time(port, &now), 0);
  EXPECT_EQ(now.tv_sec, 1'699'999'999);
}

// "Reading it across a second rollover gave a wrong second 5 times in 40."
TEST_F(Clock, IsRightAroundTheTurnOfASecond) {
  attach_and_start();
  const timespec start{1'700'000'000, 0};
  ASSERT_EQ(rte_eth_timesync_write_time(port, &start), 0);
  bus->ns_per_read = 300;
  int64_t last = read_time();
  for (unsigned turn = 0; turn < 40; ++turn) {
    const int64_t to_go = kSecond - last % kSecond;
    bus->pass(static_cast<uint64_t>(to_go - 1500));
    for (unsigned i = 0; i < 10; ++i) {
      const int64_t now = read_time();
      EXPECT_GT(now, last) << "turn " << turn;
      EXPECT_LT(now - last, kSecond + 5000) << "turn " << turn;
      last = now;
    }
  }
}

TEST_F(Clock, AdjustmentsInARowAreAllApplied) {
  attach_and_start();
  const int64_t before = read_time();
  for (unsigned i = 0; i < 10; ++i) ASSERT_EQ(rte_eth_timesync_adjust_time(port, 10'000'000), 0);
  EXPECT_GE(read_time() - before, 100'000'000);
  EXPECT_LT(read_time() - before, 101'000'000);
}

TEST_F(Clock, ThatIsStuckIsSaid) {
  card::CardConfig config;
  config.ptp_update_ns = UINT64_MAX / 2;
  attach_and_start({}, config);
  EXPECT_EQ(rte_eth_timesync_adjust_time(port, 1000), -EBUSY) << "was not applied";
  EXPECT_EQ(rte_eth_timesync_adjust_time(port, 1000), -EBUSY) << "would be lost";
  const timespec start{1'700'000'000, 0};
  EXPECT_EQ(rte_eth_timesync_write_time(port, &start), -EBUSY);
}

TEST_F(Clock, OfACardThatIsGone) {
  attach_and_start();
  bus->card().remove();
  EXPECT_EQ(rte_eth_timesync_adjust_time(port, 1000), -EIO);
  const timespec start{1'700'000'000, 0};
  EXPECT_EQ(rte_eth_timesync_write_time(port, &start), -EIO);
}

}  // namespace
}  // namespace mqnic::test
