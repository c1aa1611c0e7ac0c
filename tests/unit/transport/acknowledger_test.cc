// What a responder owes beside its responses: every state, and what leads from each to each.
#include "transport/acknowledger.h"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>

namespace uroce {

void PrintTo(Acknowledger::State state, std::ostream* out) {
  static constexpr const char* kNames[] = {"nothing", "ACK", "delayed ACK", "NAK"};
  *out << kNames[static_cast<uint8_t>(state)];
}

namespace test {
namespace {

class AcknowledgerTest : public testing::Test {
 protected:
  using State = Acknowledger::State;
  static constexpr Instant kNow{1'000'000'000};
  static constexpr Duration kDelay = microseconds(20);
  static constexpr uint8_t kSyndrome = 0x60;

  /// The program answers `messages` messages, each with a post.
  static void answer(Acknowledger& ack, int messages) {
    for (int i = 0; i < messages; i++) {
      ack.on_message(true, kNow);
      if (ack.delayed()) ack.end_delay();  // nothing is sent while the ACK waits
      ack.on_sent();
      ack.on_send_posted();
    }
  }
  /// An acknowledger of a program that answers, in `state`.
  static Acknowledger in(State state) {
    Acknowledger ack(kDelay);
    answer(ack, 3);
    if (state == State::kAck) ack.require_ack();
    if (state == State::kDelayedAck) ack.on_message(true, kNow);
    if (state == State::kNak) ack.require_nak(kSyndrome);
    return ack;
  }
  /// What each of the four states becomes.
  struct Row {
    State nothing, ack, delayed_ack, nak;
    bool operator==(const Row&) const = default;
  };
  static Row follows(const std::function<void(Acknowledger&)>& event) {
    const auto from = [&](State state) {
      Acknowledger ack = in(state);
      EXPECT_EQ(ack.state(), state);
      event(ack);
      return ack.state();
    };
    return {from(State::kNothing), from(State::kAck), from(State::kDelayedAck), from(State::kNak)};
  }
};

TEST_F(AcknowledgerTest, AMessageIsAcknowledgedAtOnceOrLater) {
  EXPECT_EQ(follows([](auto& ack) { ack.on_message(true, kNow); }),
            (Row{State::kDelayedAck, State::kAck, State::kAck, State::kNak}));
  EXPECT_EQ(follows([](auto& ack) { ack.on_message(false, kNow); }),
            (Row{State::kAck, State::kAck, State::kAck, State::kNak}))
      << "a response waits";
}

TEST_F(AcknowledgerTest, WhatNeedsAnAnswerAtOnceEndsTheDelay) {
  EXPECT_EQ(follows([](auto& ack) { ack.require_ack(); }), (Row{State::kAck, State::kAck, State::kAck, State::kNak}));
  EXPECT_EQ(follows([](auto& ack) { ack.require_nak(1); }), (Row{State::kNak, State::kNak, State::kNak, State::kNak}));
}

TEST_F(AcknowledgerTest, EndingTheDelayOwesNothingNew) {
  const Row ended{State::kNothing, State::kAck, State::kAck, State::kNak};
  EXPECT_EQ(follows([](auto& ack) { ack.end_delay(); }), ended);
  EXPECT_EQ(follows([](auto& ack) { ack.on_timeout(kNow + kDelay); }), ended);
}

TEST_F(AcknowledgerTest, AResponseStandsForAnAckAndForNoNak) {
  EXPECT_EQ(follows([](auto& ack) { ack.on_response(); }),
            (Row{State::kNothing, State::kNothing, State::kNothing, State::kNak}));
  EXPECT_EQ(follows([](auto& ack) { ack.withdraw_nak(); }),
            (Row{State::kNothing, State::kAck, State::kDelayedAck, State::kNothing}));
}

TEST_F(AcknowledgerTest, SentSilencedAndReset) {
  const Row nothing{State::kNothing, State::kNothing, State::kNothing, State::kNothing};
  EXPECT_EQ(follows([](auto& ack) {
              if (ack.due()) ack.on_sent();
            }),
            (Row{State::kNothing, State::kNothing, State::kDelayedAck, State::kNothing}));
  EXPECT_EQ(follows([](auto& ack) { ack.silence(); }), nothing);
  EXPECT_EQ(follows([](auto& ack) { ack.reset(); }), nothing);
}

TEST_F(AcknowledgerTest, OnlyWhatDoesNotWaitIsDue) {
  EXPECT_FALSE(in(State::kNothing).due());
  EXPECT_TRUE(in(State::kAck).due());
  EXPECT_FALSE(in(State::kDelayedAck).due());
  EXPECT_TRUE(in(State::kNak).due());
  for (const State state : {State::kNothing, State::kAck, State::kNak}) {
    EXPECT_FALSE(in(state).delayed());
    EXPECT_EQ(in(state).next_timeout(), Instant::never());
  }
  EXPECT_TRUE(in(State::kDelayedAck).delayed());
  EXPECT_EQ(in(State::kDelayedAck).next_timeout(), kNow + kDelay);
}

TEST_F(AcknowledgerTest, TheLatestNakCounts) {
  Acknowledger ack = in(State::kNak);
  EXPECT_EQ(ack.nak_syndrome(), kSyndrome);
  ack.require_nak(0x2E);
  EXPECT_EQ(ack.nak_syndrome(), 0x2E);
}

TEST_F(AcknowledgerTest, ProgramsThatAnsweredTwiceAreWaitedFor) {
  for (const int answers : {0, 1, 2, 3, 4}) {
    Acknowledger ack(kDelay);
    answer(ack, answers);
    ack.on_message(true, kNow);
    EXPECT_EQ(ack.delayed(), answers >= 2) << answers;
  }
}

TEST_F(AcknowledgerTest, OnePostAnswersOneMessage) {
  Acknowledger ack(kDelay);
  ack.on_send_posted();  // answers nothing
  answer(ack, 1);
  ack.on_send_posted();  // nor does this
  ack.on_message(true, kNow);
  EXPECT_EQ(ack.state(), State::kAck);
}

TEST_F(AcknowledgerTest, AMessageBehindANakIsNotOneToAnswer) {
  Acknowledger ack(kDelay);
  answer(ack, 1);
  ack.require_nak(kSyndrome);
  ack.on_message(true, kNow);
  ack.on_sent();
  ack.on_send_posted();
  ack.on_message(true, kNow);
  EXPECT_EQ(ack.state(), State::kAck);
}

TEST_F(AcknowledgerTest, WithoutADelayNothingWaits) {
  Acknowledger ack(Duration{0});
  answer(ack, 3);
  ack.on_message(true, kNow);
  EXPECT_EQ(ack.state(), State::kAck);
}

TEST_F(AcknowledgerTest, ADelayInVainIsTheLast) {
  Acknowledger ack = in(State::kDelayedAck);
  ack.on_timeout({(kNow + kDelay).ns - 1});
  EXPECT_TRUE(ack.delayed());
  ack.on_timeout(kNow + kDelay);
  EXPECT_EQ(ack.state(), State::kAck);
  ack.on_sent();
  ack.on_message(true, kNow + kDelay);
  EXPECT_EQ(ack.state(), State::kAck) << "nobody answered";
  // An ACK that was sent in time does not count against the program.
  ack = in(State::kDelayedAck);
  ack.end_delay();
  ack.on_timeout(kNow + kDelay);
  ack.on_sent();
  ack.on_message(true, kNow);
  EXPECT_TRUE(ack.delayed());
}

TEST_F(AcknowledgerTest, ResetForgetsHowTheProgramAnswers) {
  Acknowledger ack = in(State::kDelayedAck);
  ack.silence();
  ack.on_message(true, kNow);
  EXPECT_TRUE(ack.delayed()) << "silence does not";
  ack.reset();
  ack.on_send_posted();  // answers no message of this connection
  answer(ack, 1);
  ack.on_message(true, kNow);
  EXPECT_EQ(ack.state(), State::kAck);
}

}  // namespace
}  // namespace test
}  // namespace uroce
