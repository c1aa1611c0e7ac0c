// Positive ACKs, and what their MSN counts.
#include "lint/ack_judge.h"

#include <gtest/gtest.h>

#include "lint/msn_judge.h"
#include "made_packet.h"

namespace uroce {
namespace {

using lint::AckJudge;
using test::Court;
using test::MadePacket;

constexpr uint8_t kNoCredits = 0x1f;
using Meaning = AckJudge::Meaning;

struct AckTest : testing::Test {
  AckTest() { court.send(100, 10); }
  Meaning ack(uint32_t psn, uint64_t frame, uint8_t syndrome = kNoCredits) {
    return judge.on_ack(
        *MadePacket({.opcode = kOpAcknowledge, .psn = psn, .frame = frame, .aeth = {.syndrome = syndrome}}));
  }
  Court court;
  AckJudge judge{court.seen, court.report};
};

TEST_F(AckTest, AcksGoOnlyForwards) {
  EXPECT_EQ(ack(105, 1), Meaning::kWholeMessages);
  court.seen.numbers.acknowledge(Psn(105));
  EXPECT_EQ(ack(105, 2), Meaning::kWholeMessages);  // the answer to a duplicate
  EXPECT_EQ(ack(104, 3), Meaning::kNothing);
  EXPECT_EQ(court.found(), "<ack-back@3");
  EXPECT_FALSE(judge.goes_back(*MadePacket({.opcode = kOpcodeSack, .psn = 105})));
  EXPECT_TRUE(judge.goes_back(*MadePacket({.opcode = kOpcodeSack, .psn = 100, .frame = 4})));
  EXPECT_EQ(court.found(), "<ack-back@4");
}

TEST_F(AckTest, AReadIsAnsweredWithItsDataOnly) {
  lint::Read& read = court.ask(110, 4);
  EXPECT_EQ(ack(113, 1), Meaning::kNothing);
  EXPECT_EQ(court.found(), "<ack-for-read@1");
  EXPECT_EQ(ack(113, 2, 0x05), Meaning::kPackets);  // an update of the credits
  read.answered = 1;
  EXPECT_EQ(ack(113, 3), Meaning::kPackets);
  EXPECT_EQ(court.found(), "");
}

TEST_F(AckTest, ADuplicateIsAnsweredAlsoWhileAReadWaits) {
  court.ask(110, 4);
  court.seen.statistics.retransmitted++;
  EXPECT_EQ(ack(113, 1), Meaning::kPackets);
  // The answer may leave out READs that were answered already.
  court.seen.numbers.acknowledge(Psn(113));
  EXPECT_EQ(ack(109, 2), Meaning::kPackets);
  EXPECT_EQ(ack(108, 3), Meaning::kNothing);
  EXPECT_EQ(court.found(), "<ack-back@3");
}

struct MsnTest : testing::Test {
  MsnTest() { court.send(100, 10); }
  std::string check(uint32_t psn, uint32_t msn, bool through = true) {
    judge.check(*MadePacket({.opcode = kOpAcknowledge, .psn = psn, .frame = 9, .aeth = {.msn = msn}}), Psn(psn),
                through);
    return court.found();
  }
  Court court;
  lint::MsnJudge judge{court.seen, court.report};
};

TEST_F(MsnTest, TheFirstTellsAndTheOthersFollow) {
  EXPECT_EQ(check(101, 0xFFFFFF), "");
  EXPECT_EQ(check(102, 0), "");
  EXPECT_EQ(check(104, 2), "");
  EXPECT_EQ(check(104, 3), "<msn@9");
  EXPECT_EQ(check(104, 1, false), "");  // a NAK: its own message is not complete
  EXPECT_EQ(check(104, 2, false), "<msn@9");
}

TEST_F(MsnTest, FromTheBeginningItIsTheNumberOfMessages) {
  judge.count_from_start(1);
  EXPECT_EQ(check(100, 1), "");
  EXPECT_EQ(check(109, 11), "<msn@9");
}

TEST_F(MsnTest, BehindAGapItIsLearnedAgain) {
  judge.count_from_start(1);
  court.send(120, 2);
  EXPECT_EQ(check(120, 500), "");
  EXPECT_EQ(check(121, 501), "");
  EXPECT_EQ(check(121, 502), "<msn@9");
}

TEST_F(MsnTest, AReadMayBeAnsweredAfterLaterMessages) {
  judge.count_from_start(1);
  const lint::Read& read = court.ask(105, 1);
  for (const uint32_t msn : {4u, 5u, 6u, 10u, 11u}) {
    judge.check_range(*MadePacket({.opcode = kOpReadResponseOnly, .psn = 105, .frame = msn, .aeth = {.msn = msn}}),
                      read);
  }
  EXPECT_EQ(court.found(), "<msn@4 <msn@11");
}

}  // namespace
}  // namespace uroce
