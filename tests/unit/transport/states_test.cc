// The QP's states: draining, errors and their flush, reset, completion queues that overflow.
#include <gmock/gmock.h>

#include "rig.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Posting.

TEST(States, WhereWorkMayBePosted) {
  struct Case {
    QpState state;
    PostResult send, receive;
  };
  constexpr Case kCases[] = {{QpState::kReset, PostResult::kBadState, PostResult::kBadState},
                             {QpState::kInit, PostResult::kBadState, PostResult::kOk},
                             {QpState::kRtr, PostResult::kBadState, PostResult::kOk},
                             {QpState::kRts, PostResult::kOk, PostResult::kOk}};
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    for (const Case& c : kCases) {
      RigOptions options;
      options.type = type;
      options.state = c.state;
      Rig rig(options);
      EXPECT_EQ(rig.post(rig.send_wr(0)), c.send) << qp_state_name(c.state);
      EXPECT_EQ(rig.receive(1), c.receive) << qp_state_name(c.state);
    }
  }
}

TEST(States, ReceivesPostedInInitAreThereInRts) {
  RigOptions options;
  options.state = QpState::kInit;
  Rig rig(options);
  rig.receive(4);
  EXPECT_EQ(rig.qp().receives_queued(), 1u);
}

TEST(States, ATransitionMaySayWhereItBelievesToBe) {
  Rig rig;
  QpAttributes attributes;
  attributes.state = QpState::kRts;
  attributes.min_rnr_timer = 5;
  constexpr uint32_t kMask = kAttrState | kAttrCurState | kAttrMinRnrTimer;
  attributes.cur_state = QpState::kSqd;
  EXPECT_EQ(rig.modify(attributes, kMask), ModifyResult::kBadTransition);
  EXPECT_EQ(rig.qp().attributes().min_rnr_timer, 12u);
  attributes.cur_state = QpState::kRts;
  EXPECT_EQ(rig.modify(attributes, kMask), ModifyResult::kOk);
  EXPECT_EQ(rig.qp().attributes().min_rnr_timer, 5u);
}

TEST(States, PostingInErrorIsFlushedAtOnce) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    RigOptions options;
    options.type = type;
    Rig rig(options);
    rig.modify(QpState::kErr);
    EXPECT_EQ(rig.post(rig.send_wr(0, 1)), PostResult::kOk);
    EXPECT_EQ(rig.receive(2), PostResult::kOk);
    EXPECT_THAT(rig.completed(), ElementsAre("send 1: work request flushed", "recv 2: work request flushed"));
    EXPECT_THAT(rig.sent(), IsEmpty());
  }
}

TEST(States, TheProgramsErrorFlushesBothQueuesInOrder) {
  Rig rig;
  for (uint64_t i = 1; i <= 3; i++) rig.post(i == 2 ? rig.read_wr(4, i) : rig.send_wr(4, i));
  for (uint64_t i = 4; i <= 5; i++) rig.receive(i);
  rig.sent();
  EXPECT_EQ(rig.modify(QpState::kErr), ModifyResult::kOk);
  EXPECT_THAT(rig.completed(), ElementsAre("send 1: work request flushed", "read 2: work request flushed",
                                           "send 3: work request flushed", "recv 4: work request flushed",
                                           "recv 5: work request flushed"));
  rig.advance(milliseconds(100));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.arrive(send(kOpSendOnly, 0x100, 0));
  rig.arrive(ack(0x200, 1));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counted(), "resp_cqe_flush_error 2, req_cqe_flush_error 3, rx_drop_qp_state 2");
}

TEST(States, AReceiveHalfFilledIsFlushedFirst) {
  Rig rig;
  rig.receive(1);
  rig.receive(2);
  rig.arrive(send(kOpSendFirst, 0x100, 256));
  rig.modify(QpState::kErr);
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: work request flushed", "recv 2: work request flushed"));
}

TEST(States, ResetForgetsEverythingWithoutCompletions) {
  Rig rig;
  rig.post(rig.send_wr(4, 1));
  rig.receive(2);
  rig.arrive(send(kOpSendFirst, 0x100, 256));
  rig.sent();
  EXPECT_EQ(rig.modify(QpState::kReset), ModifyResult::kOk);
  EXPECT_THAT(rig.completed(), IsEmpty());
  EXPECT_EQ(rig.qp().send_queue().ring().size(), 0u);
  EXPECT_EQ(rig.qp().receives_queued(), 0u);
  rig.arrive(send(kOpSendLast, 0x101, 4));
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(States, EstablishedIsReportedOnceInRtr) {
  RigOptions options;
  options.state = QpState::kRtr;
  Rig rig(options);
  rig.receive(1);
  rig.receive(2);
  rig.arrive(send(kOpSendOnly, 0x100, 0));
  rig.arrive(send(kOpSendOnly, 0x101, 0));
  EXPECT_THAT(rig.events(), ElementsAre("established"));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1", "ACK 000101 msn 2"));
}

TEST(States, NoResponsesAreTakenInRtr) {
  RigOptions options;
  options.state = QpState::kRtr;
  Rig rig(options);
  rig.arrive(ack(0x200, 1));
  EXPECT_EQ(rig.counted(), "rx_drop_qp_state 1");
}

// Draining.

ModifyResult drain(Rig& rig) {
  QpAttributes attributes;
  attributes.state = QpState::kSqd;
  attributes.sqd_async_notify = true;
  const ModifyResult result = rig.modify(attributes, kAttrState | kAttrEnSqdAsyncNotify);
  rig.turn();
  return result;
}

TEST(Drain, AnIdleQpIsDrainedAtOnce) {
  Rig rig;
  EXPECT_EQ(drain(rig), ModifyResult::kOk);
  EXPECT_EQ(rig.qp().state(), QpState::kSqd);
  EXPECT_THAT(rig.events(), ElementsAre("drained"));
  EXPECT_FALSE(rig.qp().attributes().sq_draining);
}

TEST(Drain, WhatHasBegunEndsWhatHasNotWaits) {
  RigOptions options;
  options.engine.window_packets = 2;
  Rig rig(options);
  rig.post(rig.write_wr(1000, 1));  // four packets, two are out
  rig.post(rig.send_wr(4, 2));
  EXPECT_EQ(rig.sent().size(), 2u);
  drain(rig);
  EXPECT_THAT(rig.events(), IsEmpty());
  EXPECT_TRUE(rig.qp().attributes().sq_draining);
  rig.arrive(ack(0x201, 0));
  EXPECT_EQ(rig.sent().size(), 2u);
  EXPECT_THAT(rig.events(), IsEmpty());
  rig.arrive(ack(0x203, 1));
  EXPECT_THAT(rig.events(), ElementsAre("drained"));
  EXPECT_THAT(rig.completed(), ElementsAre("write 1: success"));
  EXPECT_THAT(rig.sent(), IsEmpty());
  // Requests can be posted, and are sent once it is in RTS again.
  EXPECT_EQ(rig.post(rig.send_wr(4, 3)), PostResult::kOk);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.modify(QpState::kRts), ModifyResult::kOk);
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000204 bytes 4 ack", "SEND_ONLY 000205 bytes 4 ack"));
}

TEST(Drain, RetransmissionGoesOn) {
  Rig rig;
  rig.post(rig.send_wr(4, 1));
  rig.sent();
  drain(rig);
  rig.advance(milliseconds(2));
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000200 bytes 4 ack"));
}

TEST(Drain, ReceivingGoesOn) {
  Rig rig;
  rig.receive(1);
  drain(rig);
  rig.arrive(send(kOpSendOnly, 0x100, 4));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: success, 4 bytes"));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1"));
}

/// A bug of rxe: the array with answers was resized while they were being sent.
TEST(Drain, MoreReadsAtOnceAreAllowedFromThenOn) {
  RigOptions options;
  options.attributes.max_dest_rd_atomic = 1;
  Rig rig(options);
  drain(rig);
  rig.port().set_tx_room(0);
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 4));  // its answer has to wait
  QpAttributes attributes;
  attributes.state = QpState::kSqd;
  attributes.max_dest_rd_atomic = 16;
  ASSERT_EQ(rig.modify(attributes, kAttrState | kAttrMaxDestRdAtomic), ModifyResult::kOk);
  for (uint32_t i = 1; i < 16; i++) rig.arrive(read(0x100 + i, rig.remote_va(i), rig.rkey(), 4));
  ASSERT_EQ(rig.qp().state(), QpState::kSqd);
  rig.port().set_tx_room(64);
  rig.turn();
  const auto frames = rig.sent_frames();
  ASSERT_EQ(frames.size(), 16u);
  for (uint32_t i = 0; i < 16; i++) {
    PacketView view;
    ASSERT_EQ(parse_frame(frames[i], view), ParseResult::kOk);
    EXPECT_EQ(view.bth.psn, Psn(0x100 + i));
    EXPECT_EQ(view.payload[0], rig.remote()[i]);
  }
}

TEST(Drain, AtomicsAreRememberedAcrossAChangeOfDepth) {
  RigOptions options;
  options.attributes.max_dest_rd_atomic = 1;
  Rig rig(options);
  rig.arrive(fetch_add(0x100, rig.remote_va(), rig.rkey(), 1));
  const auto first = rig.sent();
  drain(rig);
  QpAttributes attributes;
  attributes.state = QpState::kSqd;
  attributes.max_dest_rd_atomic = 8;
  ASSERT_EQ(rig.modify(attributes, kAttrState | kAttrMaxDestRdAtomic), ModifyResult::kOk);
  rig.arrive(fetch_add(0x100, rig.remote_va(), rig.rkey(), 1));
  EXPECT_EQ(rig.sent(), first);
}

// Completion queues.

TEST(Overrun, ACompletionThatDoesNotFitStopsTheQp) {
  RigOptions options;
  options.cq_capacity = 2;
  Rig rig(options);
  for (uint64_t i = 1; i <= 4; i++) rig.receive(i);
  for (uint32_t i = 0; i < 3; i++) rig.arrive(send(kOpSendOnly, 0x100 + i, 4));
  EXPECT_TRUE(rig.recv_cq().overrun());
  EXPECT_EQ(rig.observer().cq_errors.size(), 1u);
  EXPECT_EQ(rig.qp().state(), QpState::kErr);
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: success, 4 bytes", "recv 2: success, 4 bytes"));
}

TEST(Events, AnArmedQueueSaysSoOnce) {
  Rig rig;
  for (uint64_t i = 1; i <= 3; i++) rig.receive(i);
  rig.arrive(send(kOpSendOnly, 0x100, 4));
  EXPECT_THAT(rig.observer().cq_events, IsEmpty());
  rig.recv_cq().arm(CompletionQueue::Wake::kAny);
  rig.arrive(send(kOpSendOnly, 0x101, 4));
  rig.arrive(send(kOpSendOnly, 0x102, 4));
  EXPECT_EQ(rig.observer().cq_events.size(), 1u);
}

TEST(Events, SolicitedOnly) {
  Rig rig;
  for (uint64_t i = 1; i <= 3; i++) rig.receive(i);
  rig.recv_cq().arm(CompletionQueue::Wake::kSolicited);
  rig.arrive(send(kOpSendOnly, 0x100, 4));
  EXPECT_EQ(rig.observer().cq_events.size(), 0u);
  rig.arrive(send(kOpSendOnly, 0x101, 4).solicited());
  EXPECT_EQ(rig.observer().cq_events.size(), 1u);
  rig.recv_cq().arm(CompletionQueue::Wake::kSolicited);
  rig.modify(QpState::kErr);  // an error counts as solicited
  EXPECT_EQ(rig.observer().cq_events.size(), 2u);
}

TEST(Events, SharedQueueLimit) {
  RigOptions options;
  options.use_srq = true;
  Rig rig(options);
  for (uint64_t i = 1; i <= 3; i++) rig.receive(i);
  rig.srq()->set_limit(2);
  rig.arrive(send(kOpSendOnly, 0x100, 4));
  EXPECT_EQ(rig.observer().srq_limits.size(), 0u);
  rig.arrive(send(kOpSendOnly, 0x101, 4));
  EXPECT_EQ(rig.observer().srq_limits.size(), 1u);
  rig.arrive(send(kOpSendOnly, 0x102, 4));
  EXPECT_EQ(rig.observer().srq_limits.size(), 1u);
}

TEST(Events, LastReceiveOfASharedQueue) {
  RigOptions options;
  options.use_srq = true;
  Rig rig(options);
  rig.receive(1);
  rig.modify(QpState::kErr);
  EXPECT_THAT(rig.events(), ElementsAre("last receive"));
  EXPECT_THAT(rig.completed(), IsEmpty());  // the receive belongs to the queue, not to the QP
}

TEST(Shared, AQpWithASharedQueueTakesNoReceivesOfItsOwn) {
  RigOptions options;
  options.use_srq = true;
  Rig rig(options);
  const Sge sge = rig.local_sge(0, 8);
  EXPECT_EQ(rig.engine().post_recv(rig.qp(), {1, &sge, 1}, rig.now()), PostResult::kBadState);
}

}  // namespace
}  // namespace uroce::test
