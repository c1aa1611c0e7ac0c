// Which responses are asked for again: what lies in a gap, when enough came behind it or it is old, and nothing else.
#include "transport/response_recovery.h"

#include <gtest/gtest.h>

#include <array>

namespace uroce::test {
namespace {

constexpr uint32_t kLimit = 4;
constexpr Instant clock_us(int64_t us) { return Instant{1'000'000'000 + us * 1000}; }

/// PSNs 100..109 are a READ of ten responses, 110 is an atomic, 111..113 a WRITE, 114..117 another READ. The peer has
/// executed all of them.
class ResponseRecoveryTest : public testing::Test {
 protected:
  ResponseRecoveryTest() {
    pool_.prepare();
    window_.start(Psn(100));
    send(WrOpcode::kRdmaRead, 10);
    send(WrOpcode::kFetchAdd, 1);
    send(WrOpcode::kRdmaWrite, 3);
    send(WrOpcode::kRdmaRead, 4);
    requests_.restart(Psn(118));
    recovery_.reset();
  }
  void send(WrOpcode opcode, uint32_t packets) {
    SendWqe wqe;
    wqe.opcode = opcode;
    wqe.packets = packets;
    wqe.started = true;
    wqe.first_psn = window_.next();
    ring_.push(wqe);
    while (!window_.at_end()) window_.advance();
  }
  ReorderBuffer::Result arrive(uint32_t psn, Instant now) {
    PacketView view;
    std::array<uint8_t, 4> bytes{};
    view.info = &opcode_info(kOpReadResponseMiddle);
    view.bth.opcode = kOpReadResponseMiddle;
    view.bth.psn = Psn(psn);
    view.ext = view.payload = bytes.data();
    view.payload_bytes = bytes.size();
    const ReorderBuffer::Result result = recovery_.hold(view, now);
    settle(now);
    return result;
  }
  void settle(Instant now) {
    const Psn before = window_.una();
    PacketView view;
    while (recovery_.take(view)) window_.on_answered(window_.una() + 1);
    recovery_.after_taking(window_.una() != before, now);
    if (recovery_.has_gap()) recovery_.look(kLimit, now);
  }
  /// "105 + 3": requests three responses from PSN 105 on; "" when nothing is requested.
  std::string ask() {
    if (!recovery_.wants_transmit()) return "";
    const auto ask = recovery_.take_ask();
    if (!ask) return "none";
    EXPECT_EQ(ring_.at(ask->work).first_psn + ask->index, ask->psn);
    recovery_.on_asked(*ask);
    return std::to_string(ask->psn.value()) + " + " + std::to_string(ask->packets);
  }

  Ring<SendWqe> ring_{16};
  RequestWindow window_{ring_};
  RequestRecovery requests_{64};
  ReorderPool pool_{64, 1024};
  ResponseRecovery recovery_{ring_, window_, requests_, &pool_};
};

TEST_F(ResponseRecoveryTest, InOrderNothingIsMissing) {
  EXPECT_FALSE(recovery_.has_gap());
  EXPECT_EQ(recovery_.next_timeout(), Instant::never());
  EXPECT_EQ(ask(), "");
}

TEST_F(ResponseRecoveryTest, TheThirdResponseFromBeyondAsksForTheGap) {
  EXPECT_EQ(arrive(103, clock_us(0)), ReorderBuffer::Result::kHeld);
  EXPECT_EQ(ask(), "");
  arrive(104, clock_us(1));
  EXPECT_EQ(ask(), "");
  arrive(105, clock_us(2));
  EXPECT_FALSE(recovery_.asked_parts());
  EXPECT_EQ(ask(), "100 + 3");
  EXPECT_TRUE(recovery_.asked_parts());
  arrive(106, clock_us(3));
  EXPECT_EQ(ask(), "") << "it was asked for";
}

TEST_F(ResponseRecoveryTest, WhatCameIsTakenInItsTurn) {
  arrive(102, clock_us(0));
  arrive(101, clock_us(1));
  EXPECT_TRUE(recovery_.has_gap());
  window_.on_answered(Psn(101));
  settle(clock_us(2));
  EXPECT_EQ(window_.una(), Psn(103));
  EXPECT_FALSE(recovery_.has_gap());
}

TEST_F(ResponseRecoveryTest, ACopyIsHeldOnce) {
  arrive(103, clock_us(0));
  EXPECT_EQ(arrive(103, clock_us(1)), ReorderBuffer::Result::kAgain);
  EXPECT_EQ(arrive(103, clock_us(2)), ReorderBuffer::Result::kAgain);
  EXPECT_EQ(ask(), "") << "one response came from beyond, not three";
}

TEST_F(ResponseRecoveryTest, AGapOverSeveralWorkRequestsIsAskedForPieceByPiece) {
  arrive(115, clock_us(0));
  arrive(116, clock_us(1));
  arrive(117, clock_us(2));
  EXPECT_EQ(ask(), "100 + 10");
  EXPECT_EQ(ask(), "110 + 1");
  EXPECT_EQ(ask(), "114 + 1") << "a WRITE has no response";
  EXPECT_EQ(ask(), "");
}

TEST_F(ResponseRecoveryTest, OnlyWhatThePeerHasCarriedOutIsAskedFor) {
  requests_.restart(Psn(110));
  arrive(115, clock_us(0));
  arrive(116, clock_us(1));
  arrive(117, clock_us(2));
  EXPECT_EQ(ask(), "100 + 10");
  EXPECT_EQ(ask(), "none") << "the atomic is the scoreboard's";
  EXPECT_EQ(ask(), "");
}

TEST_F(ResponseRecoveryTest, TheSecondGapHasItsOwnCount) {
  arrive(101, clock_us(0));
  arrive(102, clock_us(1));
  arrive(105, clock_us(2));
  EXPECT_EQ(ask(), "100 + 1");
  arrive(106, clock_us(3));
  EXPECT_EQ(ask(), "");
  arrive(107, clock_us(4));
  EXPECT_EQ(ask(), "103 + 2");
}

TEST_F(ResponseRecoveryTest, NoMoreThanThePeerKeepsRoomFor) {
  for (uint32_t run = 0; run < 4; run++) arrive(101 + 2 * run, clock_us(run));
  arrive(109, clock_us(4));
  std::vector<std::string> asked;
  for (int i = 0; i < 8; i++) {
    recovery_.look(2, clock_us(5));
    if (recovery_.wants_transmit()) asked.push_back(ask());
  }
  EXPECT_EQ(asked, (std::vector<std::string>{"100 + 1", "102 + 1"}));
  recovery_.on_progress();
  recovery_.look(2, clock_us(6));
  EXPECT_EQ(ask(), "104 + 1");
}

TEST_F(ResponseRecoveryTest, AcksFromBeyondCountForTheNewestGap) {
  for (int i = 0; i < 2; i++) {
    recovery_.on_answer_beyond(clock_us(i));
    settle(clock_us(i));
    EXPECT_EQ(ask(), "");
  }
  recovery_.on_answer_beyond(clock_us(2));
  settle(clock_us(2));
  EXPECT_EQ(ask(), "100 + 10");
}

TEST_F(ResponseRecoveryTest, AResponseWithoutRoomShowsTheGapAllTheSame) {
  ReorderPool none(0, 1024);
  none.prepare();
  ResponseRecovery poor(ring_, window_, requests_, &none);
  PacketView view;
  view.info = &opcode_info(kOpReadResponseMiddle);
  view.bth.psn = Psn(103);
  EXPECT_EQ(poor.hold(view, clock_us(0)), ReorderBuffer::Result::kFull);
  EXPECT_TRUE(poor.has_gap());
}

TEST_F(ResponseRecoveryTest, AnOldGapIsAskedForAtOnceAndOnce) {
  requests_.restart(Psn(118));
  requests_.on_sent(Psn(118), 0, clock_us(0));
  (void)requests_.on_delivered(Psn(119), clock_us(50));  // a round trip of 50 us, so 37.5 us of patience beyond it
  arrive(105, clock_us(60));
  EXPECT_EQ(recovery_.next_timeout(), Instant{clock_us(60).ns + 37'500});
  recovery_.expire({clock_us(60).ns + 37'499});
  EXPECT_EQ(ask(), "");
  recovery_.expire({clock_us(60).ns + 37'500});
  EXPECT_EQ(ask(), "100 + 5");
  EXPECT_EQ(recovery_.next_timeout(), Instant::never()) << "until there is progress";
}

TEST_F(ResponseRecoveryTest, WhatWasAskedForIsAskedForAgainWhenThatIsLost) {
  requests_.on_sent(Psn(118), 0, clock_us(0));
  (void)requests_.on_delivered(Psn(119), clock_us(50));
  for (uint32_t psn = 103; psn < 106; psn++) arrive(psn, clock_us(60));
  ASSERT_EQ(ask(), "100 + 3");
  recovery_.look(kLimit, clock_us(60 + 175));  // twice the wait of 87.5 us
  EXPECT_EQ(ask(), "");
  recovery_.look(kLimit, clock_us(60 + 176));
  EXPECT_EQ(ask(), "100 + 3");
}

TEST_F(ResponseRecoveryTest, AGapThatClosesMeanwhileIsNotAskedFor) {
  for (uint32_t psn = 101; psn < 104; psn++) arrive(psn, clock_us(0));
  ASSERT_TRUE(recovery_.wants_transmit());
  window_.on_answered(Psn(101));
  settle(clock_us(1));
  EXPECT_EQ(ask(), "none");
}

TEST_F(ResponseRecoveryTest, SilenceBehindAReadAsksForTheRestOfIt) {
  window_.on_answered(Psn(104));
  recovery_.look_at_first(clock_us(0));
  EXPECT_EQ(ask(), "104 + 6");
}

/// All requests are sent again, so the peer can take as many of these questions as at first.
TEST_F(ResponseRecoveryTest, AfterARestartAsMuchIsAskedForAsBefore) {
  requests_.on_sent(Psn(118), 0, clock_us(0));
  (void)requests_.on_delivered(Psn(119), clock_us(50));
  for (int life = 0; life < 2; life++) {
    for (const uint32_t psn : {101u, 103u, 105u, 107u, 109u, 115u, 116u}) arrive(psn, clock_us(60));
    std::vector<std::string> asked;
    while (recovery_.wants_transmit()) {
      asked.push_back(ask());
      recovery_.look(kLimit, clock_us(61));
    }
    EXPECT_EQ(asked, (std::vector<std::string>{"100 + 1", "102 + 1", "104 + 1", "106 + 1"})) << life;
    recovery_.restart();
  }
  arrive(105, clock_us(70));
  EXPECT_NE(recovery_.next_timeout(), Instant::never()) << "a gap may grow old again";
}

TEST_F(ResponseRecoveryTest, RestartForgetsWhatIsHeldButNotThatPartsWereAskedFor) {
  for (uint32_t psn = 103; psn < 106; psn++) arrive(psn, clock_us(0));
  ASSERT_EQ(ask(), "100 + 3");
  recovery_.restart();
  EXPECT_FALSE(recovery_.has_gap());
  EXPECT_EQ(recovery_.next_timeout(), Instant::never());
  EXPECT_EQ(pool_.free(), 64u);
  EXPECT_TRUE(recovery_.asked_parts());
  recovery_.reset();
  EXPECT_FALSE(recovery_.asked_parts());
}

}  // namespace
}  // namespace uroce::test
