// XRC: a target fills the shared receive queue that each message names; an initiator names one.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "rig.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The packet as an XRC packet: another service, and the number of a shared receive queue behind the BTH.
Packet xrc(Packet packet, uint32_t srqn) {
  packet.bth.opcode = make_opcode(Service::kXrc, packet.bth.opcode & 0x1f);
  if (opcode_info(packet.bth.opcode).is_response()) return packet;
  const Bytes header = {0, static_cast<uint8_t>(srqn >> 16), static_cast<uint8_t>(srqn >> 8),
                        static_cast<uint8_t>(srqn)};
  packet.extension.insert(packet.extension.begin(), header.begin(), header.end());
  return packet;
}

/// From the BTH up to the iCRC.
Bytes transport_bytes(const Bytes& frame) {
  constexpr size_t kHeaders = 14 + 20 + 8;
  return {frame.begin() + kHeaders, frame.end() - kIcrcBytes};
}

RigOptions xrc_options(QpType type) {
  RigOptions options;
  options.type = type;
  return options;
}

class TargetTest : public testing::Test {
 protected:
  TargetTest() : rig_(xrc_options(QpType::kXrcRecv)) {}

  uint32_t srqn() { return rig_.srq()->xrc().number; }
  /// Another shared receive queue; its completions go to the rig's send queue.
  SharedReceiveQueue& other(PdId pd, XrcdId xrcd) {
    SharedReceiveQueue& queue = *rig_.engine().objects().create_srq(pd, 4, 1, nullptr);
    EXPECT_TRUE(rig_.engine().objects().attach_xrc(queue, xrcd, rig_.send_cq()));
    const Sge sge = rig_.local_sge(0, 1024);
    EXPECT_EQ(queue.post({100, &sge, 1}), PostResult::kOk);
    return queue;
  }
  SharedReceiveQueue& other() { return other(rig_.pd(), rig_.xrcd()); }
  void expect_refused(const Packet& packet, const char* nak) {
    rig_.arrive(packet);
    EXPECT_THAT(rig_.sent(), ElementsAre(nak));
    EXPECT_EQ(rig_.qp().state(), QpState::kErr);
  }

  Rig rig_;
};

TEST_F(TargetTest, AMessageFillsTheQueueThatItNames) {
  SharedReceiveQueue& second = other();
  ASSERT_NE(second.xrc().number, srqn());
  rig_.receive(7);
  rig_.arrive(xrc(send(kOpSendOnly, 0x100, 16), second.xrc().number));
  const std::vector<Bytes> frames = rig_.sent_frames();
  ASSERT_EQ(frames.size(), 1u);
  // XRC ACKNOWLEDGE; an answer names no shared receive queue.
  EXPECT_EQ(transport_bytes(frames[0]), (Bytes{0xb1, 0, 0xff, 0xff, 0, 0, 0x07, 0x77, 0, 0, 1, 0, 0x1f, 0, 0, 1}));
  Completion completion;
  ASSERT_EQ(rig_.send_cq().poll({&completion, 1}), 1u);
  EXPECT_EQ(completion.wr_id, 100u);
  EXPECT_EQ(completion.byte_len, 16u);
  EXPECT_EQ(completion.qp_num, rig_.qp().qpn());
  EXPECT_EQ(rig_.recv_cq().size(), 0u);
  rig_.arrive(xrc(send_imm(kOpSendOnlyImm, 0x101, 8, 0x01020304), srqn()));
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 7: success, 8 bytes, imm 01020304"));
}

TEST_F(TargetTest, AMessageOfSeveralPackets) {
  rig_.receive(1);
  rig_.arrive({xrc(send(kOpSendFirst, 0x100, 256), srqn()).no_ack_request(),
               xrc(send(kOpSendMiddle, 0x101, 256), srqn()).no_ack_request(),
               xrc(send(kOpSendLast, 0x102, 3), srqn())});
  EXPECT_THAT(rig_.sent(), ElementsAre("ACK 000102 msn 1"));
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 1: success, 515 bytes"));
}

TEST_F(TargetTest, WriteWithImmediateTakesAReceive) {
  rig_.receive(3);
  Packet packet = write(kOpWriteOnlyImm, 0x100, rig_.remote_va(64), rig_.rkey(), 4, 4);
  rig_.arrive(xrc(packet, srqn()));
  EXPECT_THAT(rig_.sent(), ElementsAre("ACK 000100 msn 1"));
  EXPECT_THAT(rig_.completed(), ElementsAre("recv write-imm 3: success, 4 bytes, imm 44332211"));
  EXPECT_TRUE(std::equal(packet.payload.begin(), packet.payload.end(), rig_.remote() + 64));
}

TEST_F(TargetTest, ReadsAndAtomicsAreAnsweredInXrc) {
  rig_.arrive(xrc(read(0x100, rig_.remote_va(), rig_.rkey(), 4), srqn()));
  uint64_t there;
  std::memcpy(&there, rig_.remote() + 8, sizeof there);
  rig_.arrive(xrc(fetch_add(0x101, rig_.remote_va(8), rig_.rkey(), 2), srqn()));
  const std::vector<Bytes> frames = rig_.sent_frames();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(transport_bytes(frames[0]),
            (Bytes{0xb0, 0, 0xff, 0xff, 0, 0, 0x07, 0x77, 0, 0, 1, 0, 0x1f, 0, 0, 1, 5, 8, 11, 14}));
  EXPECT_EQ(transport_bytes(frames[1])[0], 0xb2);
  uint64_t now;
  std::memcpy(&now, rig_.remote() + 8, sizeof now);
  EXPECT_EQ(now, there + 2);
}

TEST_F(TargetTest, AReadIsAnsweredAgain) {
  const Packet request = xrc(read(0x100, rig_.remote_va(), rig_.rkey(), 4), srqn());
  rig_.arrive(request);
  const std::vector<Bytes> first = rig_.sent_frames();
  rig_.arrive(request);
  EXPECT_EQ(rig_.sent_frames(), first);
  // A repetition that names another queue gets no answer.
  rig_.arrive(xrc(read(0x100, rig_.remote_va(), rig_.rkey(), 4), srqn() + 1));
  EXPECT_THAT(rig_.sent(), IsEmpty());
}

/// Keys are checked against the protection domain of the shared receive queue.
TEST_F(TargetTest, KeysBelongToTheDomainOfTheQueue) {
  const PdId stranger = rig_.engine().objects().allocate_pd();
  SharedReceiveQueue& second = other(stranger, rig_.xrcd());
  rig_.arrive(xrc(write(kOpWriteOnly, 0x100, rig_.remote_va(), rig_.rkey(), 4, 4), srqn()));
  EXPECT_THAT(rig_.sent(), ElementsAre("ACK 000100 msn 1"));
  expect_refused(xrc(write(kOpWriteOnly, 0x101, rig_.remote_va(), rig_.rkey(), 4, 4), second.xrc().number),
                 "NAK 000101 remote access error msn 1");
}

/// A response is not sent with the rights of another domain, that of the next message.
TEST_F(TargetTest, EachResponseHasTheRightsOfItsRequest) {
  SharedReceiveQueue& second = other(rig_.engine().objects().allocate_pd(), rig_.xrcd());
  rig_.arrive({xrc(read(0x100, rig_.remote_va(), rig_.rkey(), 4), srqn()),
               xrc(send(kOpSendOnly, 0x101, 0), second.xrc().number)});
  EXPECT_THAT(rig_.sent(), ElementsAre("XRC_READ_RESPONSE_ONLY 000100 msn 1 bytes 4", "ACK 000101 msn 2"));
}

TEST_F(TargetTest, NoSuchQueueIsAnInvalidRequest) {
  rig_.receive(1);
  rig_.events();
  expect_refused(xrc(send(kOpSendOnly, 0x100, 4), srqn() ^ 0x10000), "NAK 000100 invalid request msn 0");
  EXPECT_THAT(rig_.events(), ElementsAre("request error"));
  EXPECT_THAT(rig_.completed(), IsEmpty());
  EXPECT_EQ(rig_.srq()->slots().taken(), 1u);
}

TEST_F(TargetTest, AQueueOfAnotherXrcDomainIsAnInvalidRequest) {
  const SharedReceiveQueue& stranger = other(rig_.pd(), rig_.engine().objects().xrc_domains().open());
  expect_refused(xrc(send(kOpSendOnly, 0x100, 4), stranger.xrc().number), "NAK 000100 invalid request msn 0");
}

TEST_F(TargetTest, AnOrdinarySharedQueueHasNoNumber) {
  const SharedReceiveQueue* const plain = rig_.engine().objects().create_srq(rig_.pd(), 4, 1, nullptr);
  EXPECT_EQ(plain->xrc().number, 0u);
  expect_refused(xrc(send(kOpSendOnly, 0x100, 4), 0), "NAK 000100 invalid request msn 0");
}

TEST_F(TargetTest, AllPacketsOfAMessageNameTheSameQueue) {
  SharedReceiveQueue& second = other();
  rig_.receive(1);
  rig_.arrive(xrc(send(kOpSendFirst, 0x100, 256), srqn()).no_ack_request());
  expect_refused(xrc(send(kOpSendLast, 0x101, 4), second.xrc().number), "NAK 000101 invalid request msn 0");
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 1: remote invalid request"));
}

TEST_F(TargetTest, NoReceiveIsNotReady) {
  rig_.arrive(xrc(send(kOpSendOnly, 0x100, 4), srqn()));
  EXPECT_THAT(rig_.sent(), ElementsAre("RNR NAK 000100 timer 12 msn 0"));
  rig_.receive(2);
  rig_.arrive(xrc(send(kOpSendOnly, 0x100, 4), srqn()));
  EXPECT_THAT(rig_.sent(), ElementsAre("ACK 000100 msn 1"));
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 2: success, 4 bytes"));
}

TEST_F(TargetTest, AQueueThatGoesAwayInAMessage) {
  SharedReceiveQueue& second = other();
  rig_.arrive(xrc(send(kOpSendFirst, 0x100, 256), second.xrc().number));
  EXPECT_THAT(rig_.sent(), ElementsAre("ACK 000100 msn 0"));
  const uint32_t number = second.xrc().number;
  ASSERT_TRUE(rig_.engine().destroy_srq(&second));
  expect_refused(xrc(send(kOpSendLast, 0x101, 4), number), "NAK 000101 invalid request msn 0");
  EXPECT_THAT(rig_.completed(), IsEmpty());
}

TEST_F(TargetTest, AQueueThatGoesAwayTakesItsCompletions) {
  SharedReceiveQueue& second = other();
  rig_.arrive(xrc(send(kOpSendOnly, 0x100, 4), second.xrc().number));
  EXPECT_EQ(rig_.send_cq().size(), 1u);
  EXPECT_EQ(rig_.send_cq().users, 1u);
  ASSERT_TRUE(rig_.engine().destroy_srq(&second));
  EXPECT_EQ(rig_.send_cq().size(), 0u);
  EXPECT_EQ(rig_.send_cq().users, 0u);
}

/// Completions belong to the shared receive queue, not to the target.
TEST_F(TargetTest, CompletionsOutliveTheTarget) {
  rig_.receive(5);
  rig_.arrive(xrc(send(kOpSendOnly, 0x100, 4), srqn()));
  EXPECT_EQ(rig_.modify(QpState::kReset), ModifyResult::kOk);
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 5: success, 4 bytes"));
  EXPECT_EQ(rig_.srq()->slots().taken(), 0u);
}

TEST_F(TargetTest, ResetGivesTheReceiveBack) {
  rig_.receive(5);
  rig_.arrive(xrc(send(kOpSendFirst, 0x100, 256), srqn()));
  EXPECT_EQ(rig_.modify(QpState::kReset), ModifyResult::kOk);
  EXPECT_EQ(rig_.srq()->slots().taken(), 0u);
  EXPECT_THAT(rig_.completed(), IsEmpty());
}

TEST_F(TargetTest, HasNoQueuesOfItsOwn) {
  EXPECT_EQ(rig_.post(SendWr{}), PostResult::kBadOpcode);
  EXPECT_EQ(rig_.engine().post_recv(rig_.qp(), {}, rig_.now()), PostResult::kBadState);
}

TEST_F(TargetTest, TakesNoAnswers) {
  rig_.arrive(xrc(ack(0x200, 1), 0));
  EXPECT_EQ(rig_.counted(), "rx_drop_qp_service 1");
}

TEST_F(TargetTest, TakesNoOtherService) {
  rig_.arrive(send(kOpSendOnly, 0x100, 4));
  EXPECT_EQ(rig_.counted(), "rx_drop_qp_service 1");
}

class InitiatorTest : public testing::Test {
 protected:
  static constexpr uint32_t kSrqn = 0x00abcdef;

  InitiatorTest() : rig_(xrc_options(QpType::kXrcSend)) {}
  SendWr to_queue(SendWr wr) {
    wr.remote_srqn = kSrqn;
    return wr;
  }
  Bytes only_frame() {
    const std::vector<Bytes> frames = rig_.sent_frames();
    EXPECT_EQ(frames.size(), 1u);
    return frames.empty() ? Bytes{} : transport_bytes(frames[0]);
  }

  Rig rig_;
};

TEST_F(InitiatorTest, ASendNamesTheQueue) {
  EXPECT_EQ(rig_.post(to_queue(rig_.send_wr(4))), PostResult::kOk);
  // BTH: XRC SEND_ONLY, P_Key, QPN, A with PSN. XRCETH: reserved, number. Payload: 9 + 5 i.
  EXPECT_EQ(only_frame(), (Bytes{0xa4, 0,    0xff, 0xff, 0, 0,  0x07, 0x77, 0x80, 0, 2, 0,  //
                                 0,    0xab, 0xcd, 0xef, 9, 14, 19,   24}));
  rig_.arrive(xrc(ack(0x200, 1), 0));
  EXPECT_THAT(rig_.completed(), ElementsAre("send 1: success"));
}

TEST_F(InitiatorTest, EveryRequestPacketNamesIt) {
  SendWr wr = to_queue(rig_.send_wr(600));
  wr.opcode = WrOpcode::kSendWithImm;
  wr.imm_or_rkey = 0x04030201;
  EXPECT_EQ(rig_.post(wr), PostResult::kOk);
  const std::vector<Bytes> frames = rig_.sent_frames();
  ASSERT_EQ(frames.size(), 3u);
  const uint8_t opcodes[] = {0xa0, 0xa1, 0xa3};
  const Bytes named = {0, 0xab, 0xcd, 0xef};
  for (int i = 0; i < 3; i++) {
    const Bytes bytes = transport_bytes(frames[i]);
    EXPECT_EQ(bytes[0], opcodes[i]);
    EXPECT_EQ(Bytes(bytes.begin() + 12, bytes.begin() + 16), named);
  }
  const Bytes last = transport_bytes(frames[2]);
  EXPECT_EQ(Bytes(last.begin() + 16, last.begin() + 20), (Bytes{1, 2, 3, 4}));
}

TEST_F(InitiatorTest, OtherHeadersStandBehindIt) {
  SendWr wr = to_queue(rig_.write_wr(4));
  EXPECT_EQ(rig_.post(wr), PostResult::kOk);
  EXPECT_EQ(only_frame(),
            (Bytes{0xaa, 0,    0xff, 0xff, 0, 0, 0x07, 0x77, 0x80, 0, 2,    0,                                //
                   0,    0xab, 0xcd, 0xef, 0, 0, 0,    0,    0,    0, 0x10, 0, 0, 0, 0xab, 0xcd, 0, 0, 0, 4,  //
                   9,    14,   19,   24}));
  rig_.arrive(xrc(ack(0x200, 1), 0));
  EXPECT_EQ(rig_.post(to_queue(rig_.read_wr(4))), PostResult::kOk);
  EXPECT_EQ(only_frame(),
            (Bytes{0xac, 0,    0xff, 0xff, 0, 0, 0x07, 0x77, 0x80, 0, 2,    1,  //
                   0,    0xab, 0xcd, 0xef, 0, 0, 0,    0,    0,    0, 0x10, 0, 0, 0, 0xab, 0xcd, 0, 0, 0, 4}));
  rig_.arrive(xrc(read_response(kOpReadResponseOnly, 0x201, 4, 2), 0));
  EXPECT_EQ(rig_.post(to_queue(rig_.atomic_wr(WrOpcode::kCompareSwap))), PostResult::kOk);
  EXPECT_EQ(only_frame(), (Bytes{0xb3, 0,    0xff, 0xff, 0, 0, 0x07, 0x77, 0x80, 0, 2,    2,                    //
                                 0,    0xab, 0xcd, 0xef, 0, 0, 0,    0,    0,    0, 0x10, 0, 0, 0, 0xab, 0xcd,  //
                                 0,    0,    0,    0,    0, 0, 0,    6,    0,    0, 0,    0, 0, 0, 0,    5}));
  rig_.arrive(xrc(atomic_ack(0x202, 5, 3), 0));
  EXPECT_THAT(rig_.completed(), ElementsAre("write 1: success", "read 1: success, 4 bytes", "cas 1: success"));
}

TEST_F(InitiatorTest, WhatWasLostIsSentAgain) {
  EXPECT_EQ(rig_.post(to_queue(rig_.send_wr(4))), PostResult::kOk);
  const Bytes first = only_frame();
  rig_.advance(milliseconds(3));
  EXPECT_EQ(only_frame(), first);
  rig_.arrive(xrc(ack(0x200, 1), 0));
  EXPECT_THAT(rig_.completed(), ElementsAre("send 1: success"));
}

TEST_F(InitiatorTest, ARefusalIsAnInvalidRequest) {
  EXPECT_EQ(rig_.post(to_queue(rig_.send_wr(4))), PostResult::kOk);
  rig_.arrive(xrc(nak(0x200, NakCode::kInvalidRequest), 0));
  EXPECT_THAT(rig_.completed(), ElementsAre("send 1: remote invalid request"));
  EXPECT_EQ(rig_.qp().state(), QpState::kErr);
}

TEST_F(InitiatorTest, TakesNoRequests) {
  rig_.arrive(xrc(send(kOpSendOnly, 0x100, 4), 0));
  EXPECT_EQ(rig_.counted(), "rx_drop_qp_service 1");
  EXPECT_EQ(rig_.engine().post_recv(rig_.qp(), {}, rig_.now()), PostResult::kBadState);
}

TEST_F(InitiatorTest, TakesNoAnswerOfRc) {
  EXPECT_EQ(rig_.post(to_queue(rig_.send_wr(4))), PostResult::kOk);
  rig_.arrive(ack(0x200, 1));
  EXPECT_EQ(rig_.counted(), "rx_drop_qp_service 1");
  EXPECT_THAT(rig_.completed(), IsEmpty());
}

TEST(XrcQueues, ANumberDoesNotComeBackSoon) {
  Rig rig;
  SeededRandom random(1);
  XrcQueues queues(2, random);
  SharedReceiveQueue a(1, 1, 1, rig.observer(), nullptr);
  SharedReceiveQueue b(1, 1, 1, rig.observer(), nullptr);
  const uint32_t first = queues.add(a);
  EXPECT_NE(first, 0u);
  EXPECT_LE(first, 0xffffffu);
  a.set_xrc({1, nullptr, first});
  EXPECT_NE(queues.add(b), 0u);
  EXPECT_EQ(queues.add(b), 0u);
  EXPECT_EQ(queues.find(first), &a);
  queues.remove(a);
  EXPECT_EQ(queues.find(first), nullptr);
  const uint32_t second = queues.add(a);
  EXPECT_NE(second, first);
  EXPECT_EQ(queues.find(first), nullptr);
  EXPECT_EQ(queues.find(second), &a);
  for (const uint32_t nobody : {0u, 3u, 0xffffffu}) EXPECT_EQ(queues.find(nobody), nullptr);
}

}  // namespace
}  // namespace uroce::test
