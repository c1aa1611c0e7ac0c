// What the peer's answers say of the requests on their way: lost, not needed after all, or just slow.
#include "transport/request_recovery.h"

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>

namespace uroce::test {
namespace {

constexpr Instant time_us(int64_t us) { return Instant{1'000'000'000 + us * 1000}; }

/// A SACK: everything up to `psn` arrived in order, and `ranges` are held behind the gap.
class Sack {
 public:
  Sack(uint32_t psn, std::initializer_list<SackRange> ranges) {
    view_.bth.psn = Psn(psn);
    view_.payload = bytes_.data();
    for (const SackRange& range : ranges) {
      range.encode(bytes_.data() + view_.payload_bytes);
      view_.payload_bytes += SackRange::kBytes;
    }
  }
  const PacketView& view() const { return view_; }

 private:
  std::array<uint8_t, kSackRangesMax * SackRange::kBytes> bytes_{};
  PacketView view_;
};

/// Ten packets of work request 7 from PSN 100 on, one each microsecond.
class RequestRecoveryTest : public testing::Test {
 protected:
  RequestRecoveryTest() {
    recovery_.start();
    recovery_.restart(Psn(100));
    for (uint32_t i = 0; i < 10; i++) recovery_.on_sent(Psn(100 + i), 7, time_us(i));
  }
  RequestRecovery::News sack(uint32_t psn, std::initializer_list<SackRange> ranges, Instant now) {
    return recovery_.on_ranges(Sack(psn, ranges).view(), Psn(110), now);
  }

  RequestRecovery recovery_{32};
};

TEST_F(RequestRecoveryTest, DeliveredPacketsTellARoundTripAndNothingElse) {
  const auto news = recovery_.on_delivered(Psn(104), time_us(53));
  EXPECT_EQ(recovery_.delivered(), Psn(104));
  EXPECT_EQ(recovery_.open(), 6u);
  EXPECT_EQ(news.rtt, microseconds(50)) << "that of PSN 103";
  EXPECT_FALSE(news.loss);
  EXPECT_EQ(news.spurious, 0u);
}

TEST_F(RequestRecoveryTest, OldNewsAreNone) {
  (void)recovery_.on_delivered(Psn(104), time_us(53));
  const auto news = recovery_.on_delivered(Psn(103), time_us(60));
  EXPECT_EQ(recovery_.delivered(), Psn(104));
  EXPECT_FALSE(news.rtt.has_value());
}

TEST_F(RequestRecoveryTest, ThreeLaterArrivalsMakeALossOnce) {
  (void)recovery_.on_delivered(Psn(101), time_us(50));
  EXPECT_FALSE(sack(100, {{Psn(102), Psn(104)}}, time_us(51)).loss);
  EXPECT_FALSE(recovery_.wants_transmit());
  EXPECT_TRUE(sack(100, {{Psn(102), Psn(105)}}, time_us(52)).loss);
  EXPECT_FALSE(sack(100, {{Psn(102), Psn(106)}}, time_us(53)).loss) << "it is known";
  const auto resend = recovery_.lost();
  ASSERT_TRUE(resend.has_value());
  EXPECT_EQ(resend->psn, Psn(101));
  EXPECT_EQ(resend->work, 7u);
  EXPECT_FALSE(resend->probe);
  recovery_.on_sent_again(*resend, time_us(54));
  EXPECT_FALSE(recovery_.wants_transmit());
  EXPECT_FALSE(recovery_.lost().has_value());
}

TEST_F(RequestRecoveryTest, RangesThatCannotBeAreLeftOut) {
  const auto inside_the_gap = sack(100, {{Psn(101), Psn(103)}}, time_us(50));
  EXPECT_TRUE(inside_the_gap.impossible_range);
  const auto empty = sack(100, {{Psn(103), Psn(103)}}, time_us(50));
  EXPECT_TRUE(empty.impossible_range);
  const auto never_sent = sack(100, {{Psn(109), Psn(111)}, {Psn(104), Psn(107)}}, time_us(50));
  EXPECT_TRUE(never_sent.impossible_range);
  EXPECT_EQ(recovery_.open(), 7u) << "the good one counts";
  EXPECT_TRUE(never_sent.loss);
}

TEST_F(RequestRecoveryTest, WhatWasSentAgainForNothingIsCountedOnce) {
  (void)sack(100, {{Psn(102), Psn(105)}}, time_us(50));
  while (const auto resend = recovery_.lost()) recovery_.on_sent_again(*resend, time_us(60));
  // Too early for answers to those copies.
  const auto news = recovery_.on_delivered(Psn(105), time_us(62));
  EXPECT_EQ(news.spurious, 2u);
  EXPECT_EQ(recovery_.on_delivered(Psn(110), time_us(63)).spurious, 0u);
}

TEST_F(RequestRecoveryTest, APeerThatDroppedWhatItHeldLostAllOfIt) {
  (void)recovery_.on_delivered(Psn(101), time_us(50));
  (void)sack(100, {{Psn(102), Psn(104)}}, time_us(51));
  EXPECT_FALSE(recovery_.on_expects(Psn(101)));
  (void)recovery_.on_delivered(Psn(102), time_us(52));
  EXPECT_TRUE(recovery_.on_expects(Psn(102))) << "it said that it holds that one";
  EXPECT_EQ(recovery_.lost()->psn, Psn(102));
  EXPECT_FALSE(recovery_.on_expects(Psn(109))) << "that is not the next";
}

TEST_F(RequestRecoveryTest, WhatWasOvertakenIsLostWhenItIsOld) {
  (void)recovery_.on_delivered(Psn(101), time_us(50));
  (void)sack(100, {{Psn(102), Psn(103)}}, time_us(52));
  // Two round trips of 50 us give a variation of 18.75 us: 50 + 12.5 + 18.75 us after it left.
  const Instant due = recovery_.next_timeout();
  EXPECT_GT(due, time_us(1 + 81));
  EXPECT_LT(due, time_us(1 + 82));
  EXPECT_FALSE(recovery_.expire({due.ns - 1}));
  EXPECT_TRUE(recovery_.expire(due));
  EXPECT_EQ(recovery_.lost()->psn, Psn(101));
  EXPECT_EQ(recovery_.next_timeout(), Instant::never());
}

TEST_F(RequestRecoveryTest, ProbesAreTheLastAndTheFirstThatMayBeLost) {
  (void)recovery_.on_delivered(Psn(103), time_us(50));
  EXPECT_EQ(recovery_.probe(TailProbe::Packet::kLast)->psn, Psn(109));
  const auto first = recovery_.probe(TailProbe::Packet::kFirst);
  EXPECT_EQ(first->psn, Psn(103));
  EXPECT_TRUE(first->probe);
  (void)recovery_.on_delivered(Psn(110), time_us(51));
  EXPECT_FALSE(recovery_.probe(TailProbe::Packet::kLast).has_value());
}

TEST_F(RequestRecoveryTest, WhatThePeerHasCarriedOutIsSentAgainForItsResponseAlone) {
  (void)recovery_.on_delivered(Psn(110), time_us(50));
  recovery_.on_sent(Psn(105), 7, time_us(60));
  EXPECT_EQ(recovery_.open(), 0u);
}

TEST_F(RequestRecoveryTest, RestartBeginsWithAnEmptyBoard) {
  (void)sack(100, {{Psn(102), Psn(105)}}, time_us(50));
  recovery_.restart(Psn(100));
  EXPECT_FALSE(recovery_.wants_transmit());
  EXPECT_EQ(recovery_.open(), 0u);
  EXPECT_TRUE(recovery_.rtt().known()) << "the path is the same";
}

TEST_F(RequestRecoveryTest, AnotherConnectionsRoundTripsAreItsOwn) {
  ASSERT_TRUE(recovery_.on_delivered(Psn(101), time_us(50)).rtt.has_value());
  recovery_.start();
  recovery_.restart(Psn(500));
  EXPECT_FALSE(recovery_.rtt().known());
  recovery_.on_sent(Psn(500), 8, time_us(100));
  recovery_.on_sent(Psn(501), 8, time_us(101));
  recovery_.on_sent_again(*recovery_.probe(TailProbe::Packet::kFirst), time_us(102));
  EXPECT_FALSE(recovery_.on_delivered(Psn(501), time_us(140)).rtt.has_value()) << "nobody knows which copy it answers";
  EXPECT_EQ(recovery_.on_delivered(Psn(502), time_us(141)).rtt, microseconds(40));
}

}  // namespace
}  // namespace uroce::test
