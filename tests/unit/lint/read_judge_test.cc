// READs and atomics: repetitions, and responses.
#include "lint/read_judge.h"

#include <gtest/gtest.h>

#include "made_packet.h"

namespace uroce {
namespace {

using lint::Read;
using lint::ReadJudge;
using test::Court;
using test::MadePacket;
using Within = ReadJudge::Within;

/// A WRITE with PSN 99, and READs of PSN 100 to 103 and 104 to 107: 256 bytes each but the last, which has 32.
struct ReadTest : testing::Test {
  ReadTest() {
    court.send(99, 1);
    court.seen.learn_mtu(256);
    ask(100);
    ask(104);
  }
  static test::PacketSpec request(uint32_t psn, uint32_t length, uint64_t frame = 1) {
    return {.opcode = kOpReadRequest,
            .psn = psn,
            .frame = frame,
            .reth = {.va = 0x1000 + 256 * ((psn - 100) % 4), .rkey = 7, .dma_length = length}};
  }
  void ask(uint32_t psn, uint32_t length = 800) {
    const MadePacket packet(request(psn, length));
    judge.on_asked(*packet, court.send(*packet).span, true);
  }
  void ask_again(uint32_t psn, uint32_t length) {
    const MadePacket packet(request(psn, length));
    Read& read = *court.seen.sent.find_read(Psn(psn));
    ASSERT_EQ(judge.on_within(*packet, read, false), Within::kRepetition);
    judge.on_asked_again(*packet, read);
  }
  std::string answer(uint32_t psn, uint64_t frame, uint8_t opcode = kOpReadResponseMiddle, uint32_t bytes = 256) {
    court.seen.packets++;
    const MadePacket packet({.opcode = opcode, .psn = psn, .payload_bytes = bytes, .frame = frame});
    if (Read* const read = judge.answered_by(*packet)) {
      judge.on_acknowledged(read->psn - 1, frame);
      court.seen.numbers.acknowledge(Psn(psn));
      judge.check_form(*packet, *read);
      judge.on_read_response(*packet, *read);
    }
    return court.found();
  }
  void answer_first_read() {
    EXPECT_EQ(answer(100, 1, kOpReadResponseFirst), "");
    EXPECT_EQ(answer(101, 2), "");
    EXPECT_EQ(answer(102, 3), "");
    EXPECT_EQ(answer(103, 4, kOpReadResponseLast, 32), "");
  }
  Court court;
  ReadJudge judge{court.seen, court.seen.sent.reads(), court.report};
};

TEST_F(ReadTest, EachIsAnsweredOnceAndInOrder) {
  answer_first_read();
  EXPECT_TRUE(court.seen.sent.find_read(Psn(100))->done());
  EXPECT_EQ(answer(101, 5), "<read-response-unasked@5");
  EXPECT_EQ(answer(104, 6, kOpReadResponseFirst), "");
  EXPECT_EQ(answer(106, 7), "");
  EXPECT_EQ(answer(105, 8), "<read-response-order@8");
}

TEST_F(ReadTest, WhatIsAskedAgainIsAnsweredAgain) {
  answer_first_read();
  ask_again(102, 288);
  EXPECT_EQ(answer(102, 5, kOpReadResponseFirst), "");
  EXPECT_EQ(answer(103, 6, kOpReadResponseLast, 32), "");
  EXPECT_EQ(answer(102, 7), "<read-response-unasked@7");
}

TEST_F(ReadTest, ResponsesFitTheirPlaces) {
  EXPECT_EQ(answer(100, 1), "<read-response-opcode@1");
  EXPECT_EQ(court.said(), "RC_READ_RESPONSE_MIDDLE as response 1 of 4; expected a First");
  EXPECT_EQ(answer(101, 2, kOpReadResponseMiddle, 128), "<read-response-length@2");
  EXPECT_EQ(court.said(),
            "RC_READ_RESPONSE_MIDDLE of 128 bytes as response 2 of 4 to a READ of 800 bytes; expected 256");
  EXPECT_EQ(answer(102, 3, kOpReadResponseLast, 32), "<read-response-opcode@3");
  EXPECT_EQ(court.said(), "RC_READ_RESPONSE_LAST as response 3 of 4; expected a Middle");
  EXPECT_EQ(answer(103, 4, kOpReadResponseLast, 36), "<read-response-length@4");
  EXPECT_EQ(answer(99, 5), "<read-response-unasked@5");  // a WRITE
  EXPECT_EQ(answer(50, 6), "");                          // of an unknown request
}

/// One response is missing, and all that a READ of 64 has behind it came, the last one, too.
TEST_F(ReadTest, SixtyThreeResponsesMayComeBeforeTheFirst) {
  ask(200, 64 * 256);
  for (uint32_t psn = 201; psn < 263; psn++) EXPECT_EQ(answer(psn, psn), "");
  EXPECT_EQ(answer(263, 263, kOpReadResponseLast), "");
  ask_again(200, 256);
  EXPECT_FALSE(court.seen.sent.find_read(Psn(200))->done());
  EXPECT_EQ(answer(200, 264, kOpReadResponseFirst), "");
  EXPECT_TRUE(court.seen.sent.find_read(Psn(200))->done());
}

TEST_F(ReadTest, AMissingResponseIsAFaultUnlessItIsAskedAgain) {
  answer(100, 1, kOpReadResponseFirst);
  answer(102, 2);
  court.seen.packets += 3;
  judge.finish(true);  // as when every request was refused
  EXPECT_EQ(court.found(), "");
  judge.finish(false);
  EXPECT_EQ(court.found(), "<read-response-missing@2");
  ask_again(101, 544);
  judge.finish(false);
  EXPECT_EQ(court.found(), "");
}

TEST_F(ReadTest, AnAcknowledgementOfLaterPsnsMakesAHole) {
  judge.on_acknowledged(Psn(106), 5);
  court.seen.packets += 2;
  judge.finish(false);
  EXPECT_EQ(court.found(), "");  // the requester had no time to ask again
  court.seen.packets++;
  judge.finish(false);
  EXPECT_EQ(court.found(), "<read-response-missing@5");
}

TEST_F(ReadTest, ARepetitionAsksForTheSame) {
  const Read& read = *court.seen.sent.find_read(Psn(100));
  EXPECT_EQ(judge.on_within(*MadePacket(request(102, 288, 5)), read, false), Within::kRepetition);
  EXPECT_EQ(court.found(), "");
  EXPECT_EQ(judge.on_within(*MadePacket(request(102, 300, 6)), read, false), Within::kRepetition);
  test::PacketSpec elsewhere = request(101, 100, 7);
  elsewhere.reth.va++;
  EXPECT_EQ(judge.on_within(*MadePacket(elsewhere), read, false), Within::kRepetition);
  EXPECT_EQ(court.found(), "read-retry-range@6 read-retry-range@7");
}

TEST_F(ReadTest, OthersDoNotUseItsPsns) {
  const Read& read = *court.seen.sent.find_read(Psn(100));
  EXPECT_EQ(judge.on_within(*MadePacket({.psn = 100, .frame = 5}), read, false), Within::kWrong);
  EXPECT_EQ(judge.on_within(*MadePacket({.psn = 101, .frame = 6}), read, false), Within::kWrong);
  EXPECT_EQ(court.found(), "retransmit-differs@5 psn-read-range@6");
  EXPECT_EQ(judge.on_within(*MadePacket({.psn = 101, .frame = 7}), read, true), Within::kRestarted);
  court.seen.numbers.acknowledge(Psn(103));
  EXPECT_EQ(judge.on_within(*MadePacket({.psn = 101, .frame = 8}), read, false), Within::kRestarted);
  EXPECT_EQ(court.found(), "");
}

TEST_F(ReadTest, NoMoreThanWereAgreedWait) {
  judge.set_limit(3);
  ask(108);
  EXPECT_EQ(court.found(), "");
  ask(112);
  EXPECT_EQ(court.found(), "read-outstanding@1");
}

TEST(ReadOfAtomics, TheSameValueEachTime) {
  Court court;
  ReadJudge judge(court.seen, court.seen.sent.reads(), court.report);
  court.send(99, 1);
  court.ask(100, 1, true);
  const auto answer = [&](uint32_t psn, uint64_t original, uint64_t frame) {
    const MadePacket packet({.opcode = kOpAtomicAcknowledge, .psn = psn, .frame = frame, .original = original});
    if (Read* const read = judge.answered_by(*packet)) judge.on_atomic_response(*packet, *read);
    return court.found();
  };
  EXPECT_EQ(answer(99, 1, 1), "<atomic-response-unasked@1");
  EXPECT_EQ(answer(100, 5, 2), "");
  EXPECT_EQ(answer(100, 5, 3), "<atomic-response-unasked@3");
  EXPECT_EQ(answer(100, 6, 4), "<atomic-replay@4");
  Read& read = *court.seen.sent.find_read(Psn(100));
  judge.on_asked_again(*MadePacket({.opcode = kOpFetchAdd, .psn = 100}), read);
  EXPECT_EQ(answer(100, 5, 5), "");
}

}  // namespace
}  // namespace uroce
