// What the requester concludes from what arrived.
#include "transport/scoreboard.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

constexpr Instant at_us(int64_t us) { return Instant{us * 1000}; }
constexpr SackRange range(uint32_t first, uint32_t end) { return {Psn(first), Psn(end)}; }

/// Ten packets from PSN 100 on, one each microsecond.
class ScoreboardTest : public testing::Test {
 protected:
  ScoreboardTest() {
    for (uint32_t i = 0; i < 10; i++) board_.on_sent(Psn(100 + i), 7, at_us(i));
  }
  uint32_t lost_psn() const { return board_.at(board_.lost()).psn.value(); }

  Scoreboard board_{32};
};

TEST_F(ScoreboardTest, LostAfterThreeLaterArrivals) {
  board_.on_held(range(101, 102), at_us(20));
  EXPECT_EQ(board_.find_lost(), 0u);
  board_.on_held(range(101, 103), at_us(21));
  EXPECT_EQ(board_.find_lost(), 0u);
  board_.on_held(range(101, 104), at_us(22));
  EXPECT_EQ(board_.find_lost(), 1u);
  EXPECT_EQ(lost_psn(), 100u);
  EXPECT_EQ(board_.at(board_.lost()).work, 7u);
  EXPECT_EQ(board_.find_lost(), 0u);
}

TEST_F(ScoreboardTest, EveryGapBehindThreeArrivals) {
  board_.on_held(range(107, 110), at_us(20));
  board_.on_held(range(103, 105), at_us(20));
  EXPECT_EQ(board_.open(), 5u);
  EXPECT_EQ(board_.find_lost(), 5u);  // 100, 101, 102, 105, 106
  EXPECT_EQ(board_.open(), 5u);
  board_.on_sent_again(board_.lost(), at_us(21), false);
  EXPECT_EQ(lost_psn(), 101u);
  EXPECT_EQ(board_.at(board_.first_open()).psn, Psn(100));
  EXPECT_EQ(board_.at(board_.last_open()).psn, Psn(106));
}

TEST_F(ScoreboardTest, ARetransmissionIsLostAgainOnlyByWhatWasSentAfterIt) {
  board_.on_held(range(101, 104), at_us(20));
  ASSERT_EQ(board_.find_lost(), 1u);
  board_.on_sent_again(board_.lost(), at_us(20), false);
  board_.on_held(range(104, 110), at_us(26));  // all of them left before the retransmission
  EXPECT_EQ(board_.find_lost(), 0u);
  for (uint32_t i = 10; i < 13; i++) board_.on_sent(Psn(100 + i), 7, at_us(21 + i));
  board_.on_held(range(110, 112), at_us(60));
  EXPECT_EQ(board_.find_lost(), 0u);
  board_.on_held(range(110, 113), at_us(61));
  EXPECT_EQ(board_.find_lost(), 1u);
  EXPECT_EQ(lost_psn(), 100u);
}

TEST_F(ScoreboardTest, WhatArrivesIsNoLongerLost) {
  board_.on_held(range(103, 106), at_us(20));
  EXPECT_EQ(board_.find_lost(), 3u);
  board_.on_arrived(Psn(102), at_us(21));  // 100 and 101 are only late
  EXPECT_EQ(lost_psn(), 102u);
  board_.on_arrived(Psn(104), at_us(22));
  EXPECT_EQ(board_.open(), 4u);
  board_.on_arrived(Psn(110), at_us(22));
  EXPECT_EQ(board_.open(), 0u);
  EXPECT_EQ(board_.lost(), Scoreboard::kNone);
  EXPECT_TRUE(board_.empty());
  EXPECT_EQ(board_.first_open(), Scoreboard::kNone);
  EXPECT_EQ(board_.last_open(), Scoreboard::kNone);
}

TEST_F(ScoreboardTest, AnAnsweredProbeMeansThatAllBeforeItIsLost) {
  const uint32_t last = board_.last_open();
  EXPECT_EQ(board_.at(last).psn, Psn(109));
  board_.on_arrived(Psn(105), at_us(15));
  board_.on_sent_again(last, at_us(60), true);
  board_.on_held(range(109, 110), at_us(80));
  EXPECT_EQ(board_.find_lost(), 4u);  // 105 to 108
  EXPECT_EQ(lost_psn(), 105u);
}

/// The known round trips are from a time when a queue was full. A probe follows a silence longer than those: its answer
/// is believed, also when it is faster than any before.
TEST_F(ScoreboardTest, AProbeMayFindAShorterRoundTrip) {
  board_.on_arrived(Psn(105), at_us(184));  // round trip: 180
  board_.on_sent_again(board_.last_open(), at_us(560), true);
  board_.on_held(range(109, 110), at_us(564));
  EXPECT_EQ(board_.find_lost(), 4u);  // 105 to 108
  EXPECT_EQ(board_.spurious(), 0u);
}

TEST_F(ScoreboardTest, AnAnswerThatComesTooSoonIsToTheFirstCopy) {
  board_.on_arrived(Psn(101), at_us(10));  // round trip: 10
  board_.on_held(range(102, 106), at_us(20));
  ASSERT_EQ(board_.find_lost(), 1u);
  EXPECT_EQ(lost_psn(), 101u);
  board_.on_sent_again(board_.lost(), at_us(20), false);
  board_.on_arrived(Psn(106), at_us(23));
  EXPECT_EQ(board_.spurious(), 1u);
  EXPECT_EQ(board_.find_lost(), 0u);  // the retransmission in flight proves nothing about 106 to 109
}

TEST_F(ScoreboardTest, RoundTripTimeIsThatOfTheLastPacketAnswered) {
  EXPECT_FALSE(board_.rtt().known());
  board_.on_arrived(Psn(105), at_us(24));  // 104 left at 4
  EXPECT_EQ(board_.rtt().smoothed(), microseconds(20));
  EXPECT_EQ(board_.rtt().variation(), microseconds(10));
  EXPECT_EQ(board_.rtt().minimum(), microseconds(20));
  board_.on_arrived(Psn(106), at_us(33));  // 28: an eighth of the difference
  EXPECT_EQ(board_.rtt().smoothed(), microseconds(21));
  EXPECT_EQ(board_.rtt().variation(), nanoseconds(9500));
  EXPECT_EQ(board_.rtt().minimum(), microseconds(20));
}

TEST_F(ScoreboardTest, ARangeThatNobodySentIsNobodys) {
  board_.on_held(range(50, 60), at_us(20));
  board_.on_held(range(110, 4000), at_us(20));
  EXPECT_EQ(board_.find_lost(), 0u);
  EXPECT_EQ(board_.at(board_.last_open()).psn, Psn(109));
}

TEST(Scoreboard, ReadRequestsAreOneEntryAndNumbersWrap) {
  Scoreboard board(8);
  board.on_sent(Psn(0xFFFFF0), 0, at_us(0));
  board.on_sent(Psn(0xFFFFF1), 1, at_us(1));  // 32 PSNs
  for (uint32_t i = 0; i < 3; i++) board.on_sent(Psn(0x11 + i), 2 + i, at_us(2 + i));
  board.on_held(range(0x11, 0x14), at_us(30));
  EXPECT_EQ(board.find_lost(), 2u);
  board.on_sent_again(board.lost(), at_us(31), false);
  EXPECT_EQ(board.at(board.lost()).psn, Psn(0xFFFFF1));
  board.on_arrived(Psn(0xFFFFF2), at_us(40));
  EXPECT_EQ(board.lost(), Scoreboard::kNone);
  EXPECT_FALSE(board.empty());
  board.on_arrived(Psn(0x14), at_us(41));
  EXPECT_TRUE(board.empty());
}

/// For many laps of the ring, with every third packet lost once.
TEST(Scoreboard, GoesRoundForLong) {
  Scoreboard board(16);
  Psn next(0);
  uint64_t lost = 0;
  for (int64_t round = 0; round < 1000; round++) {
    const Psn first = next;
    const Instant now = at_us(round * 100);
    while (!board.full()) board.on_sent(next, 0, now), next += 1;
    board.on_held({first + 3, next}, now + microseconds(10));
    lost += board.find_lost();
    while (board.lost() != Scoreboard::kNone) board.on_sent_again(board.lost(), now + microseconds(10), false);
    board.on_arrived(next, now + microseconds(20));
    ASSERT_TRUE(board.empty());
  }
  EXPECT_EQ(lost, 3000u);
  EXPECT_EQ(board.spurious(), 0u);
}

}  // namespace
}  // namespace uroce
