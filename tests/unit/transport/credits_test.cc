// End-to-end credits: how many messages the peer has receives for.
#include <gmock/gmock.h>

#include "rig.h"
#include "transport/timing.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

RigOptions granting() {
  RigOptions options;
  options.engine.grant_credits = true;
  return options;
}

TEST(Credits, Codes) {
  constexpr uint32_t kTable[31] = {0,    1,    2,    3,    4,    6,     8,     12,    16,   24,   32,
                                   48,   64,   96,   128,  192,  256,   384,   512,   768,  1024, 1536,
                                   2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
  for (uint8_t code = 0; code < 31; code++) {
    EXPECT_EQ(credits_of(code), kTable[code]);
    EXPECT_EQ(credit_code(kTable[code]), code);
    if (code > 4) {
      EXPECT_EQ(credit_code(kTable[code] - 1), code - 1);
    }
  }
  EXPECT_EQ(credit_code(1'000'000), 30);
}

TEST(Credits, AnAckTellsHowManyReceivesAreLeft) {
  Rig rig(granting());
  for (uint64_t i = 1; i <= 6; i++) rig.receive(i);
  rig.arrive(send(kOpSendOnly, 0x100, 0));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 credits 4 msn 1"));  // 5 are left; there is no code for 5
  rig.arrive(send(kOpSendOnly, 0x101, 0));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000101 credits 4 msn 2"));
  rig.arrive(send(kOpSendOnly, 0x102, 0));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000102 credits 3 msn 3"));
}

TEST(Credits, AStarvedPeerIsToldOfANewReceive) {
  Rig rig(granting());
  rig.receive(1);
  rig.arrive(send(kOpSendOnly, 0x100, 0));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 credits 0 msn 1"));
  rig.receive(2);
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 credits 1 msn 1"));
  rig.receive(3);  // no longer without receives
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(Credits, ASharedQueueMakesNoPromise) {
  RigOptions options = granting();
  options.use_srq = true;
  Rig rig(options);
  rig.receive(1);
  rig.arrive(send(kOpSendOnly, 0x100, 0));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1"));
}

TEST(Credits, TheLimitIsHonoured) {
  Rig rig;
  rig.post(rig.send_wr(0, 1));
  rig.arrive(ack(0x200, 1, 2));  // two more: messages 2 and 3
  rig.sent();
  for (uint64_t i = 2; i <= 5; i++) rig.post(rig.send_wr(0, i));
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000201 bytes 0 ack", "SEND_ONLY 000202 bytes 0 ack"));
  rig.arrive(ack(0x202, 3, 1));
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000203 bytes 0 ack"));
}

TEST(Credits, WithoutAnyOneMayGoToFindOut) {
  Rig rig;
  rig.post(rig.send_wr(0, 1));
  rig.arrive(ack(0x200, 1, 0));
  rig.sent();
  rig.post(rig.send_wr(0, 2));
  rig.post(rig.send_wr(0, 3));
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000201 bytes 0 ack"));
  rig.arrive(rnr_nak(0x201, 1));
  rig.advance(microseconds(10));
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000201 bytes 0 ack"));
}

/// The credit ends in the middle of a message, and no packet in flight asked for an ACK: one more packet does.
TEST(Credits, AMessageThatStopsInItsMiddleAsksForAnAck) {
  RigOptions options;
  options.engine.window_packets = 8;
  Rig rig(options);
  rig.post(rig.send_wr(0, 1));
  rig.post(rig.send_wr(256 * 20, 2));
  EXPECT_EQ(rig.sent().size(), 8u);  // the second message's packet 4 asks for an ACK, 5 to 7 do not
  rig.arrive(ack(0x200, 1, 0));
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_MIDDLE 000208 bytes 256 ack"));
  rig.arrive(ack(0x204, 1, 0));
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(Credits, AnUnsolicitedUpdateCounts) {
  Rig rig;
  rig.post(rig.send_wr(0, 1));
  rig.arrive(ack(0x200, 1, 0));
  rig.post(rig.send_wr(0, 2));
  rig.post(rig.send_wr(0, 3));
  rig.sent();
  rig.arrive(ack(0x201, 2, 0));
  EXPECT_EQ(rig.sent().size(), 1u);
  rig.post(rig.send_wr(0, 4));
  rig.arrive(ack(0x201, 2, 8));  // the same ACK, with more credit
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000203 bytes 0 ack"));
  EXPECT_EQ(rig.counted(), "");
}

TEST(Credits, WritesReadsAndAtomicsNeedNone) {
  Rig rig;
  rig.post(rig.send_wr(0, 1));
  rig.arrive(ack(0x200, 1, 0));
  rig.sent();
  rig.post(rig.write_wr(4, 2));
  rig.post(rig.read_wr(4, 3));
  rig.post(rig.atomic_wr(WrOpcode::kFetchAdd, 4));
  EXPECT_EQ(rig.sent().size(), 3u);
  SendWr imm = rig.write_wr(4, 5);
  imm.opcode = WrOpcode::kRdmaWriteWithImm;
  rig.post(imm);  // takes a receive
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(Credits, InvalidCodeMeansNoLimit) {
  Rig rig;
  rig.post(rig.send_wr(0, 1));
  rig.arrive(ack(0x200, 1, 0));
  rig.post(rig.send_wr(0, 2));
  rig.arrive(ack(0x201, 2, kCreditsInvalid));
  rig.sent();
  for (uint64_t i = 3; i <= 6; i++) rig.post(rig.send_wr(0, i));
  EXPECT_EQ(rig.sent().size(), 4u);
}

}  // namespace
}  // namespace uroce::test
