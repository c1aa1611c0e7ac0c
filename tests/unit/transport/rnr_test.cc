// Receiver not ready, from both sides.
#include <gmock/gmock.h>

#include "rig.h"
#include "transport/timing.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The responder.

TEST(RnrResponder, NakNamesTheTimerAndConsumesNoPsn) {
  Rig rig;
  rig.arrive(send(kOpSendOnly, 0x100, 16));
  EXPECT_THAT(rig.sent(), ElementsAre("RNR NAK 000100 timer 12 msn 0"));
  EXPECT_EQ(rig.counted(), "out_of_buffer 1, sent_rnr_naks 1");
  rig.receive(1);
  rig.arrive(send(kOpSendOnly, 0x100, 16));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1"));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: success, 16 bytes"));
}

TEST(RnrResponder, WhatFollowsIsDroppedInSilence) {
  Rig rig;
  rig.arrive({send(kOpSendOnly, 0x100, 16), send(kOpSendOnly, 0x101, 16), send(kOpSendOnly, 0x102, 16)});
  EXPECT_THAT(rig.sent(), ElementsAre("RNR NAK 000100 timer 12 msn 0"));
  rig.receive(1);
  rig.arrive(send(kOpSendOnly, 0x103, 16));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.completed(), IsEmpty());
}

TEST(RnrResponder, EveryRetryIsAnsweredAgain) {
  Rig rig;
  for (int i = 0; i < 3; i++) {
    rig.arrive(send(kOpSendOnly, 0x100, 16));
    EXPECT_THAT(rig.sent(), ElementsAre("RNR NAK 000100 timer 12 msn 0"));
  }
}

TEST(RnrResponder, AFirstPacketTakesItsReceiveOnce) {
  Rig rig;
  rig.receive(1);
  rig.arrive(send(kOpSendFirst, 0x100, 256));
  rig.arrive(send(kOpSendLast, 0x101, 4));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: success, 260 bytes"));
  rig.arrive(send(kOpSendFirst, 0x102, 256));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 0", "ACK 000101 msn 1", "RNR NAK 000102 timer 12 msn 1"));
}

TEST(RnrResponder, WriteWithImmediatePlacesNothingBeforeTheReceiveIsThere) {
  Rig rig;
  const uint8_t before = rig.remote()[0];
  rig.arrive(write(kOpWriteOnlyImm, 0x100, rig.remote_va(), rig.rkey(), 4, 4));
  EXPECT_THAT(rig.sent(), ElementsAre("RNR NAK 000100 timer 12 msn 0"));
  EXPECT_EQ(rig.remote()[0], before);
  rig.receive(1);
  rig.arrive(write(kOpWriteOnlyImm, 0x100, rig.remote_va(), rig.rkey(), 4, 4));
  EXPECT_THAT(rig.completed(), ElementsAre("recv write-imm 1: success, 4 bytes, imm 44332211"));
  EXPECT_EQ(rig.remote()[0], payload_byte(0x100, 0));
}

TEST(RnrResponder, WriteLastWithImmediateIsRefusedAloneAndTakenLater) {
  Rig rig;
  rig.arrive(write(kOpWriteFirst, 0x100, rig.remote_va(), rig.rkey(), 260, 256));
  rig.arrive(send_imm(kOpWriteLastImm, 0x101, 4, 0x11));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 0", "RNR NAK 000101 timer 12 msn 0"));
  rig.receive(1);
  rig.arrive(send_imm(kOpWriteLastImm, 0x101, 4, 0x11));
  EXPECT_THAT(rig.completed(), ElementsAre("recv write-imm 1: success, 260 bytes, imm 00000011"));
}

TEST(RnrResponder, ASharedQueueThatIsEmpty) {
  RigOptions options;
  options.use_srq = true;
  Rig rig(options);
  rig.arrive(send(kOpSendOnly, 0x100, 16));
  EXPECT_THAT(rig.sent(), ElementsAre("RNR NAK 000100 timer 12 msn 0"));
  rig.receive(9);
  rig.arrive(send(kOpSendOnly, 0x100, 16));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 9: success, 16 bytes"));
}

// The requester.

TEST(RnrRequester, WaitsForTheTimeThatTheCodeMeans) {
  Rig rig;
  rig.post(rig.send_wr(16));
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000200 bytes 16 ack"));
  rig.arrive(rnr_nak(0x200, 12));  // 0.64 ms
  EXPECT_TRUE(rig.qp().requester()->retry_timer().awaits_receive());
  rig.advance(microseconds(639));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.advance(microseconds(1));
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000200 bytes 16 ack"));
  EXPECT_EQ(rig.counted(), "rnr_nak_retry_err 1, retransmits 1");
}

TEST(RnrRequester, EveryCode) {
  // Hundredths of a millisecond, as the InfiniBand specification's table of RNR NAK timer codes lists them.
  constexpr int64_t kTable[32] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                  48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                  2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  for (uint8_t code = 0; code < 32; code++) EXPECT_EQ(rnr_delay(code).ns, kTable[code] * 10'000) << int{code};
}

TEST(RnrRequester, NothingElseIsSentMeanwhile) {
  Rig rig;
  rig.post(rig.send_wr(16, 1));
  rig.arrive(rnr_nak(0x200, 12));
  rig.sent();
  rig.post(rig.write_wr(16, 2));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.advance(microseconds(640));
  EXPECT_THAT(rig.sent(),
              ElementsAre("SEND_ONLY 000200 bytes 16 ack", "WRITE_ONLY 000201 va 1000 len 16 bytes 16 ack"));
}

TEST(RnrRequester, AcknowledgesWhatWasBefore) {
  Rig rig;
  rig.post(rig.send_wr(16, 1));
  rig.post(rig.send_wr(16, 2));
  rig.arrive(rnr_nak(0x201, 12, 1));
  EXPECT_THAT(rig.completed(), ElementsAre("send 1: success"));
}

TEST(RnrRequester, ASequenceNakBehindItDoesNotEndTheWait) {
  // Linux's rxe answers the packet behind a refused one with a sequence NAK.
  Rig rig;
  rig.post(rig.send_wr(16, 1));
  rig.post(rig.send_wr(16, 2));
  rig.sent();
  rig.arrive({rnr_nak(0x200, 12), nak(0x200, NakCode::kPsnSequenceError)});
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_TRUE(rig.qp().requester()->retry_timer().awaits_receive());
  rig.advance(microseconds(640));
  EXPECT_EQ(rig.sent().size(), 2u);
}

TEST(RnrRequester, GivesUpAfterRnrRetry) {
  Rig rig;  // rnr_retry 2
  rig.post(rig.send_wr(16, 1));
  rig.post(rig.send_wr(16, 2));
  for (int i = 0; i < 2; i++) {
    rig.arrive(rnr_nak(0x200, 12));
    EXPECT_THAT(rig.completed(), IsEmpty());
    rig.advance(microseconds(640));
  }
  rig.arrive(rnr_nak(0x200, 12));
  EXPECT_THAT(rig.completed(), ElementsAre("send 1: RNR retry counter exceeded", "send 2: work request flushed"));
  EXPECT_EQ(rig.qp().state(), QpState::kErr);
}

TEST(RnrRequester, RetryZeroFailsAtOnce) {
  RigOptions options;
  options.attributes.rnr_retry = 0;
  Rig rig(options);
  rig.post(rig.send_wr(16, 1));
  rig.arrive(rnr_nak(0x200, 12));
  EXPECT_THAT(rig.completed(), ElementsAre("send 1: RNR retry counter exceeded"));
}

TEST(RnrRequester, RetrySevenNeverGivesUp) {
  RigOptions options;
  options.attributes.rnr_retry = 7;
  Rig rig(options);
  rig.post(rig.send_wr(16, 1));
  for (int i = 0; i < 1000; i++) {
    rig.sent();
    rig.arrive(rnr_nak(0x200, 1));
    rig.advance(microseconds(10));
    ASSERT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000200 bytes 16 ack"));
  }
  EXPECT_THAT(rig.completed(), IsEmpty());
}

TEST(RnrRequester, ProgressRestoresTheBudget) {
  Rig rig;  // rnr_retry 2
  for (uint64_t message = 0; message < 5; message++) {
    const auto psn = static_cast<uint32_t>(0x200 + message);
    rig.post(rig.send_wr(16, message));
    for (int i = 0; i < 2; i++) {
      rig.arrive(rnr_nak(psn, 1));
      rig.advance(microseconds(10));
    }
    rig.arrive(ack(psn, static_cast<uint32_t>(message + 1)));
    EXPECT_EQ(rig.completed().size(), 1u);
  }
  EXPECT_EQ(rig.qp().state(), QpState::kRts);
}

/// A peer that answers, even if only to say that it is not ready, is not gone.
TEST(RnrRequester, AnswerRestoresTheTimeoutBudget) {
  RigOptions options;
  options.attributes.rnr_retry = 7;
  options.attributes.retry_cnt = 1;
  Rig rig(options);
  rig.post(rig.send_wr(16, 1));
  for (int i = 0; i < 5; i++) {
    rig.advance(milliseconds(2));  // one timeout: the RNR NAK was lost
    rig.arrive(rnr_nak(0x200, 1));
    rig.advance(microseconds(10));
  }
  EXPECT_THAT(rig.completed(), IsEmpty());
  EXPECT_EQ(rig.qp().state(), QpState::kRts);
}

/// Timeout, RNR NAK, timeout: the budget is whole again, but not larger.
TEST(RnrRequester, AnswerRestoresAllOfTheTimeoutBudget) {
  Rig rig;  // three retries
  rig.post(rig.send_wr(16, 1));
  for (int i = 0; i < 3; i++) rig.advance(milliseconds(10));
  EXPECT_EQ(rig.qp().requester()->retry_timer().retries_left(), 0u);
  rig.arrive(rnr_nak(0x200, 1));
  EXPECT_EQ(rig.qp().requester()->retry_timer().retries_left(), 3u);
  rig.advance(microseconds(10));
  for (int i = 0; i < 3; i++) rig.advance(milliseconds(10));
  EXPECT_THAT(rig.completed(), IsEmpty());
  rig.advance(milliseconds(10));
  EXPECT_THAT(rig.completed(), ElementsAre("send 1: transport retry counter exceeded"));
}

/// The RNR NAK is not about the READ, whose response is lost and has to come first.
TEST(RnrRequester, BehindALostResponseItIsNotTheHeads) {
  RigOptions options;
  options.attributes.rnr_retry = 0;
  Rig rig(options);
  rig.post(rig.read_wr(16, 1));
  rig.post(rig.send_wr(16, 2));
  rig.sent();
  rig.arrive(rnr_nak(0x201, 1));
  EXPECT_THAT(rig.completed(), IsEmpty());
  EXPECT_THAT(rig.sent(), ElementsAre("READ_REQUEST 000200 va 1000 len 16 ack", "SEND_ONLY 000201 bytes 16 ack"));
  rig.arrive(read_response(kOpReadResponseOnly, 0x200, 16, 1));
  rig.arrive(rnr_nak(0x201, 1, 1));
  EXPECT_THAT(rig.completed(), ElementsAre("read 1: success, 16 bytes", "send 2: RNR retry counter exceeded"));
}

TEST(RnrRequester, NoTimeoutRunsDuringTheWait) {
  Rig rig;  // local ACK timeout 1.05 ms
  rig.post(rig.send_wr(16, 1));
  rig.arrive(rnr_nak(0x200, 22));  // 20.48 ms
  rig.sent();
  rig.counted();
  for (int i = 0; i < 20; i++) rig.advance(milliseconds(1));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counted(), "");
  rig.advance(milliseconds(1));
  EXPECT_EQ(rig.sent().size(), 1u);
}

}  // namespace
}  // namespace uroce::test
