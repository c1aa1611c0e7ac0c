// Selective ACKs, and what is sent again because of them.
#include "lint/sack_judge.h"

#include <gtest/gtest.h>

#include "made_packet.h"

namespace uroce {
namespace {

using lint::SackJudge;
using test::Court;
using test::MadePacket;
using Ranges = std::vector<SackRange>;

SackRange psns(uint32_t first, uint32_t end) { return {Psn(first), Psn(end)}; }

/// Both sides sign; PSN 100 to 119 were sent, and 102 acknowledged.
struct SackTest : testing::Test {
  SackTest() {
    sign(requests, 3);
    sign(responses, 3);
    court.seen.signatures = {&requests, &responses};
    court.send(100, 20);
    court.seen.numbers.acknowledge(Psn(102));
  }
  static void sign(lint::SignatureTrail& trail, unsigned packets, bool right = true) {
    trail.set_ends(17, 18);
    PacketView view;
    view.bth.psn = Psn(5);
    view.flow_id = Signature(17, 18).identification(view.bth.psn) ^ (right ? 0 : 1);
    for (unsigned i = 0; i < packets; i++) trail.on_packet(view);
  }
  std::string sack(const Ranges& ranges, uint64_t frame, int64_t ms = 0) {
    const MadePacket packet(
        {.opcode = kOpcodeSack, .psn = 102, .frame = frame, .time = Instant{ms * 1'000'000}, .ranges = ranges});
    judge.check_order(*packet, SackJudge::ranges_of(*packet));
    for (const SackRange& range : ranges) judge.on_range(*packet, range, std::nullopt);
    return court.found();
  }
  std::string again(uint32_t psn, uint64_t frame) {
    const MadePacket packet({.psn = psn, .frame = frame, .direction = pcap::FrameDirection::kSent});
    judge.on_sent_again(*packet, Psn(psn + 1), false);
    return court.found();
  }
  bool may_be_sent(uint64_t frame) {
    return judge.check_ends(*MadePacket({.opcode = kOpcodeSack, .psn = 102, .frame = frame}));
  }
  Court court;
  lint::SignatureTrail requests;
  lint::SignatureTrail responses;
  SackJudge judge{court.seen, court.report};
};

TEST_F(SackTest, BothSidesSign) {
  EXPECT_TRUE(may_be_sent(1));
  sign(responses, 1, false);
  EXPECT_FALSE(may_be_sent(2));
  sign(responses, 3);
  sign(requests, 1, false);
  EXPECT_FALSE(may_be_sent(3));
  EXPECT_EQ(court.found(), "<sack-unsigned@2 <sack-stranger@3");
  court.seen.signatures = {};
  EXPECT_FALSE(may_be_sent(4));
  EXPECT_EQ(court.found(), "");
}

TEST_F(SackTest, TheRangeThatChangedLastStandsFirst) {
  EXPECT_EQ(sack({psns(105, 106)}, 1), "");
  EXPECT_EQ(sack({psns(108, 109), psns(105, 106)}, 2), "");
  EXPECT_EQ(sack({psns(105, 107), psns(108, 109)}, 3), "");
  EXPECT_EQ(sack({psns(105, 107), psns(108, 110)}, 4), "<sack-order@4");
  EXPECT_EQ(sack({psns(108, 110), psns(105, 107)}, 5), "<sack-order@5");
}

TEST_F(SackTest, AfterAPlainAckOrALongSilenceTheOrderIsNew) {
  sack({psns(105, 106)}, 1);
  judge.on_ack(Psn(103));
  EXPECT_EQ(sack({psns(105, 106), psns(108, 109)}, 2, 1), "");
  EXPECT_EQ(sack({psns(108, 109), psns(105, 106), psns(111, 112)}, 3, 600), "");
}

TEST_F(SackTest, WhatIsHeldCameBy) {
  const MadePacket packet({.opcode = kOpcodeSack, .psn = 102, .frame = 4});
  judge.on_range(*packet, psns(105, 108), Psn(106));
  EXPECT_EQ(court.found(), "<sack-unseen@4");
}

TEST_F(SackTest, RangesThatCannotBeMeanNothing) {
  const Ranges ranges = SackJudge::ranges_of(
      *MadePacket({.opcode = kOpcodeSack, .psn = 102, .ranges = {psns(103, 105), psns(108, 107), psns(109, 111)}}));
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].first, Psn(109));
}

TEST_F(SackTest, WhatIsHeldIsNotSentAgainAlone) {
  sack({psns(105, 108)}, 1);
  EXPECT_TRUE(judge.explains_back(Psn(103)));
  EXPECT_FALSE(judge.explains_back(Psn(108)));
  EXPECT_EQ(again(104, 2), "");
  EXPECT_EQ(again(106, 3), "retransmit-held@3");
  judge.on_acknowledged(Psn(108));
  EXPECT_EQ(again(106, 4), "");
}

TEST_F(SackTest, FromTheOldestOnEverythingMayBeSentAgain) {
  sack({psns(105, 108)}, 1);
  for (uint32_t psn = 103; psn < 110; psn++) EXPECT_EQ(again(psn, psn), "");
}

TEST_F(SackTest, ANakOrTheWishForAHeldOneMeansThatNothingIsHeld) {
  sack({psns(105, 108)}, 1);
  judge.on_expected(Psn(104));
  EXPECT_EQ(again(106, 2), "retransmit-held@2");
  judge.on_expected(Psn(105));
  EXPECT_EQ(again(106, 3), "");
  sack({psns(105, 108)}, 4);
  judge.on_nak();
  EXPECT_EQ(again(106, 5), "");
}

}  // namespace
}  // namespace uroce
