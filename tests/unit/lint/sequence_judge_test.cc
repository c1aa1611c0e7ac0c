// The order of requests: gaps, what fills them, packets from far away.
#include "lint/sequence_judge.h"

#include <gtest/gtest.h>

#include "made_packet.h"

namespace uroce {
namespace {

using lint::Numbers;
using lint::Verdict;
using test::Court;
using test::MadePacket;

constexpr auto kAtSender = pcap::FrameDirection::kSent;

/// PSN 100 to 109 were sent, from the beginning of the connection on.
struct SequenceTest : testing::Test {
  SequenceTest() {
    court.seen.numbers.start(Psn(100), Numbers::Beginning::kAgreed);
    court.send(100, 10);
    court.seen.numbers.leave_start();
  }
  void jump_to(uint32_t psn, uint64_t frame) {
    const MadePacket packet({.psn = psn, .frame = frame});
    judge.on_ahead(*packet);
    court.send(*packet);
  }
  Court court;
  lint::SequenceJudge judge{court.seen, court.report};
};

TEST_F(SequenceTest, AGapIsAFaultWhenItIsAcknowledged) {
  jump_to(112, 5);
  EXPECT_TRUE(judge.is_over_gap(Psn(112)));
  EXPECT_FALSE(judge.is_over_gap(Psn(110)));
  judge.on_acknowledged(Psn(109), 6);
  EXPECT_EQ(court.found(), "");
  judge.on_acknowledged(Psn(112), 7);
  EXPECT_EQ(court.found(), "psn-gap@5");
  judge.on_acknowledged(Psn(112), 8);
  EXPECT_EQ(court.found(), "");
}

TEST_F(SequenceTest, AGapThatIsFilledIsNone) {
  jump_to(115, 5);
  EXPECT_TRUE(judge.on_behind(Psn(111), 2));
  EXPECT_FALSE(judge.on_behind(Psn(111), 2));
  EXPECT_EQ(judge.missing_in({Psn(110), Psn(111)}), Psn(110));
  EXPECT_EQ(judge.missing_in({Psn(111), Psn(113)}), std::nullopt);
  EXPECT_EQ(judge.missing_in({Psn(111), Psn(120)}), Psn(113));
  EXPECT_TRUE(judge.fill(Psn(110), 5));
  EXPECT_FALSE(judge.is_over_gap(Psn(115)));
  judge.on_acknowledged(Psn(115), 7);
  EXPECT_EQ(court.found(), "");
}

TEST_F(SequenceTest, AtItsSendersPortAJumpIsAFaultAtOnce) {
  judge.on_ahead(*MadePacket({.psn = 112, .frame = 5, .direction = kAtSender}));
  EXPECT_EQ(court.found(), "psn-gap@5");
  court.seen.lossy_capture = true;
  judge.on_ahead(*MadePacket({.psn = 112, .frame = 6, .direction = kAtSender}));
  EXPECT_EQ(court.found(), "");
}

TEST_F(SequenceTest, WhatCameOverAGapHasToComeAgain) {
  jump_to(112, 5);
  court.seen.sent.find(Psn(112))->over_gap = true;
  judge.check_order(Psn(112), 6, court.seen.sent);
  EXPECT_EQ(court.found(), "");  // the gap is open: that is another fault
  judge.on_behind(Psn(110), 2);
  judge.check_order(Psn(112), 7, court.seen.sent);
  EXPECT_EQ(court.found(), "request-order@7");
  judge.check_order(Psn(112), 8, court.seen.sent);
  EXPECT_EQ(court.found(), "");
}

TEST_F(SequenceTest, ANakNamesTheFirstThatIsMissing) {
  jump_to(112, 5);
  jump_to(115, 6);
  EXPECT_EQ(judge.take_missing_before(Psn(110)), std::nullopt);
  EXPECT_EQ(judge.take_missing_before(Psn(113)), Psn(110));
  EXPECT_EQ(judge.take_missing_before(Psn(113)), std::nullopt);
  EXPECT_TRUE(judge.is_over_gap(Psn(115)));
}

TEST_F(SequenceTest, OneFromFarAwayIsWrongTwoAreAnotherLife) {
  EXPECT_EQ(judge.on_far(*MadePacket({.psn = 900000, .frame = 5})), Verdict::kTaken);
  EXPECT_TRUE(judge.is_about_odd(Psn(900001)));
  judge.on_near(*MadePacket({.psn = 110, .frame = 6}));
  EXPECT_EQ(court.found(), "psn-gap@5");
  EXPECT_FALSE(judge.is_about_odd(Psn(900001)));
  EXPECT_EQ(judge.on_far(*MadePacket({.psn = 900000, .frame = 7})), Verdict::kTaken);
  EXPECT_EQ(judge.on_far(*MadePacket({.psn = 900001, .frame = 8})), Verdict::kRestarted);
  EXPECT_EQ(court.found(), "");
}

TEST(SequenceStart, TheFirstRequestHasTheAgreedPsn) {
  Court court;
  lint::SequenceJudge judge(court.seen, court.report);
  court.seen.numbers.start(Psn(100), Numbers::Beginning::kAgreed);
  EXPECT_EQ(judge.on_far(*MadePacket({.psn = 900000, .frame = 1})), Verdict::kRestarted);
  judge.on_ahead(*MadePacket({.psn = 103, .frame = 2, .direction = kAtSender}));
  EXPECT_EQ(court.found(), "cm-start-psn@1 cm-start-psn@2");
}

TEST(SequenceStart, InAYoungConversationGapsWaitForTheEnd) {
  Court court;
  lint::SequenceJudge judge(court.seen, court.report);
  court.send(100, 1);
  judge.on_ahead(*MadePacket({.psn = 103, .frame = 2, .direction = kAtSender}));
  EXPECT_EQ(court.found(), "");
  judge.finish();
  EXPECT_EQ(court.found(), "psn-gap@2");
}

TEST(SequenceOfUc, LosesAndNeverGoesBack) {
  Court court(Service::kUc);
  lint::SequenceJudge judge(court.seen, court.report);
  court.send(100, 10, 0x24);
  judge.on_ahead(*MadePacket({.opcode = 0x24, .psn = 112, .frame = 5}));
  EXPECT_EQ(court.found(), "uc-loss@5");
  EXPECT_EQ(judge.on_uc_behind(*MadePacket({.opcode = 0x24, .psn = 105, .frame = 6})), Verdict::kTaken);
  EXPECT_EQ(court.found(), "uc-psn-back@6");
  EXPECT_EQ(judge.on_uc_behind(*MadePacket({.opcode = 0x24, .psn = 100, .frame = 7})), Verdict::kRestarted);
  EXPECT_EQ(court.found(), "");
}

}  // namespace
}  // namespace uroce
