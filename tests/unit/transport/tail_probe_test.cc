// When a probe goes out, and which packet it is.
#include "transport/tail_probe.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

using Probed = TailProbe::Packet;

constexpr Instant kFirstSent{1'000'000'000};
constexpr Duration kRtt = microseconds(50);
// Two round trips, the 20 us by which the peer may delay its ACK, and 10 us of slack.
constexpr Duration kSilence = microseconds(130);

constexpr Instant almost(Instant when) { return {when.ns - 1}; }

class TailProbeTest : public testing::Test {
 protected:
  TailProbeTest() { rtt_.add(kRtt); }
  void send(Instant now) {
    probe_.on_activity(now);
    probe_.start(rtt_, now);
  }

  RttSampler rtt_;
  TailProbe probe_{microseconds(20)};
};

TEST_F(TailProbeTest, WaitsForNothingAtFirst) {
  EXPECT_EQ(probe_.next_timeout(), Instant::never());
  EXPECT_FALSE(probe_.wants_transmit());
}

TEST_F(TailProbeTest, NeedsToKnowARoundTrip) {
  const RttSampler unknown;
  probe_.start(unknown, kFirstSent);
  EXPECT_EQ(probe_.next_timeout(), Instant::never());
}

TEST_F(TailProbeTest, GoesOutAfterTwoSilentRoundTrips) {
  send(kFirstSent);
  ASSERT_EQ(probe_.next_timeout(), kFirstSent + kSilence);
  EXPECT_FALSE(probe_.expire(true, rtt_, almost(kFirstSent + kSilence)));
  EXPECT_TRUE(probe_.expire(true, rtt_, kFirstSent + kSilence));
  EXPECT_TRUE(probe_.wants_transmit());
  EXPECT_EQ(probe_.take(), Probed::kLast);
  EXPECT_FALSE(probe_.wants_transmit());
}

TEST_F(TailProbeTest, EachSignOfLifePutsItOff) {
  send(kFirstSent);
  probe_.on_activity(kFirstSent + microseconds(100));
  EXPECT_FALSE(probe_.expire(true, rtt_, kFirstSent + kSilence));
  EXPECT_EQ(probe_.next_timeout(), kFirstSent + microseconds(100) + kSilence);
  EXPECT_TRUE(probe_.expire(true, rtt_, kFirstSent + microseconds(100) + kSilence));
}

TEST_F(TailProbeTest, ARunningWaitIsNotStartedAgain) {
  send(kFirstSent);
  probe_.start(rtt_, kFirstSent + microseconds(100));
  EXPECT_EQ(probe_.next_timeout(), kFirstSent + kSilence);
}

TEST_F(TailProbeTest, LastAndFirstInTurnAndEachTimeAfterTwiceAsLong) {
  send(kFirstSent);
  Instant now = kFirstSent;
  for (int64_t wait = 1; wait <= 64; wait *= 2) {
    EXPECT_EQ(probe_.next_timeout(), now + kSilence * wait);
    now = now + kSilence * wait;
    ASSERT_TRUE(probe_.expire(true, rtt_, now));
    const bool even = wait == 1 || wait == 4 || wait == 16 || wait == 64;
    EXPECT_EQ(probe_.take(), even ? Probed::kLast : Probed::kFirst) << wait;
  }
  EXPECT_EQ(probe_.next_timeout(), now + kSilence * 64) << "six doublings at most";
}

TEST_F(TailProbeTest, ProgressMakesTheWaitShortAgain) {
  send(kFirstSent);
  ASSERT_TRUE(probe_.expire(true, rtt_, kFirstSent + kSilence));
  probe_.on_progress();
  probe_.stop();
  const Instant later = kFirstSent + milliseconds(1);
  send(later);
  EXPECT_EQ(probe_.next_timeout(), later + kSilence);
  ASSERT_TRUE(probe_.expire(true, rtt_, later + kSilence));
  EXPECT_EQ(probe_.take(), Probed::kLast);
}

TEST_F(TailProbeTest, EndsWhenNothingIsWaitedForAnyMore) {
  send(kFirstSent);
  EXPECT_FALSE(probe_.expire(false, rtt_, kFirstSent + kSilence));
  EXPECT_EQ(probe_.next_timeout(), Instant::never());
  EXPECT_FALSE(probe_.wants_transmit());
}

TEST_F(TailProbeTest, StopAndReset) {
  send(kFirstSent);
  probe_.stop();
  EXPECT_EQ(probe_.next_timeout(), Instant::never());
  send(kFirstSent);
  ASSERT_TRUE(probe_.expire(true, rtt_, kFirstSent + kSilence));
  probe_.reset();
  EXPECT_FALSE(probe_.wants_transmit());
  EXPECT_EQ(probe_.next_timeout(), Instant::never());
  send(kFirstSent + milliseconds(1));
  EXPECT_EQ(probe_.next_timeout(), kFirstSent + milliseconds(1) + kSilence) << "the wait is a short one again";
}

}  // namespace
}  // namespace uroce::test
