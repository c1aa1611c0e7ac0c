// What is in requests: opcodes, lengths, and whether a repetition is one.
#include "lint/content_judge.h"

#include <gtest/gtest.h>

#include "made_packet.h"

namespace uroce {
namespace {

using lint::Verdict;
using test::Court;
using test::MadePacket;
using test::PacketSpec;

struct ContentTest : testing::Test {
  Court court;
  lint::ContentJudge judge{court.seen, court.report};

  std::string opcode_after(uint8_t before, uint8_t opcode) {
    const lint::Sent sent = court.send(*MadePacket({.opcode = before, .psn = 10}));
    judge.check_opcode(*MadePacket({.opcode = opcode, .psn = 11, .frame = 7}), sent);
    return court.found();
  }
  std::string length_of(const PacketSpec& spec) {
    const MadePacket packet(spec);
    judge.check_lengths(*packet, court.send(*packet));
    return court.found();
  }
};

TEST_F(ContentTest, MessagesAreContinuedAsTheyBegan) {
  EXPECT_EQ(opcode_after(kOpSendFirst, kOpSendMiddle), "");
  EXPECT_EQ(opcode_after(kOpSendMiddle, kOpSendLastImm), "");
  EXPECT_EQ(opcode_after(kOpSendLast, kOpWriteFirst), "");
  EXPECT_EQ(opcode_after(kOpReadRequest, kOpFetchAdd), "");
  EXPECT_EQ(opcode_after(kOpSendFirst, kOpWriteMiddle), "opcode-sequence@7");
  EXPECT_EQ(opcode_after(kOpSendFirst, kOpSendOnly), "opcode-sequence@7");
  EXPECT_EQ(opcode_after(kOpSendOnly, kOpSendLast), "opcode-sequence@7");
}

TEST_F(ContentTest, AMiddleIsOnePathMtu) {
  EXPECT_EQ(length_of({.opcode = kOpSendFirst, .psn = 1, .payload_bytes = 1000, .frame = 3}), "mtu-length@3");
  EXPECT_EQ(length_of({.opcode = kOpSendFirst, .psn = 1, .payload_bytes = 1024}), "");
  court.seen.learn_mtu(1024);
  EXPECT_EQ(length_of({.opcode = kOpSendMiddle, .psn = 2, .payload_bytes = 2048, .frame = 4}), "mtu-length@4");
  EXPECT_EQ(length_of({.opcode = kOpSendLast, .psn = 3, .payload_bytes = 1025, .frame = 5}), "mtu-length@5");
  EXPECT_EQ(length_of({.opcode = kOpSendLast, .psn = 4, .payload_bytes = 0, .frame = 6}), "mtu-length@6");
  EXPECT_EQ(length_of({.opcode = kOpSendOnly, .psn = 5, .payload_bytes = 0}), "");
}

TEST_F(ContentTest, AWriteIsAsLongAsItSaid) {
  court.seen.learn_mtu(256);
  EXPECT_EQ(length_of({.opcode = kOpWriteOnly, .psn = 1, .payload_bytes = 8, .reth = {.dma_length = 8}}), "");
  EXPECT_EQ(length_of({.opcode = kOpWriteOnly, .psn = 2, .payload_bytes = 8, .frame = 9, .reth = {.dma_length = 9}}),
            "write-length@9");
  EXPECT_EQ(length_of({.opcode = kOpWriteFirst, .psn = 3, .payload_bytes = 256, .reth = {.dma_length = 520}}), "");
  EXPECT_EQ(length_of({.opcode = kOpWriteMiddle, .psn = 4, .payload_bytes = 256}), "");
  EXPECT_EQ(length_of({.opcode = kOpWriteLast, .psn = 5, .payload_bytes = 8}), "");
  EXPECT_EQ(length_of({.opcode = kOpWriteLast, .psn = 5, .payload_bytes = 9, .frame = 8}), "write-length@8");
}

TEST_F(ContentTest, AWriteWhoseBeginningWasNotSeenHasAnyLength) {
  EXPECT_EQ(length_of({.opcode = kOpWriteLast, .psn = 5, .payload_bytes = 9}), "");
}

TEST_F(ContentTest, ARepetitionIsTheSame) {
  const lint::Sent sent = court.send(*MadePacket({.psn = 5, .payload_bytes = 16, .content = 1}));
  const MadePacket same({.psn = 5, .payload_bytes = 16, .frame = 2, .content = 1});
  const MadePacket other({.psn = 5, .payload_bytes = 16, .frame = 3, .content = 2});
  const MadePacket longer({.psn = 5, .payload_bytes = 20, .frame = 4, .content = 1});
  EXPECT_EQ(judge.check_repeated(*same, sent, false), Verdict::kTaken);
  EXPECT_EQ(court.found(), "");
  EXPECT_EQ(judge.check_repeated(*other, sent, false), Verdict::kTaken);
  EXPECT_EQ(judge.check_repeated(*longer, sent, false), Verdict::kTaken);
  EXPECT_EQ(court.found(), "retransmit-content@3 retransmit-differs@4");
  EXPECT_EQ(judge.check_repeated(*same, sent, true), Verdict::kTaken);
  EXPECT_EQ(judge.check_repeated(*other, sent, true), Verdict::kRestarted);
  EXPECT_EQ(court.found(), "");
}

}  // namespace
}  // namespace uroce
