// Unreliable connections: whole messages or nothing, no answers.
#include <gmock/gmock.h>

#include "rig.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Service kUc = Service::kUc;

class Uc : public testing::Test {
 protected:
  static RigOptions options() {
    RigOptions o;
    o.type = QpType::kUc;
    return o;
  }
  /// A whole message with `bytes` behind the BTH, which claims `pad` bytes of padding.
  Bytes frame_with_pad(size_t bytes, uint8_t pad) {
    Bth bth;
    bth.opcode = make_opcode(kUc, kOpSendOnly);
    bth.dest_qp = rig_.qp().qpn();
    bth.psn = Psn(0x100);
    bth.pad_count = pad;
    Bytes body;
    append(body, bth);
    body.resize(body.size() + bytes);
    return frame_of(rig_.path_from_peer(), body);
  }

  Rig rig_{options()};
};

TEST_F(Uc, CompletesWhenThePacketsAreOut) {
  rig_.post(rig_.send_wr(600, 1));
  EXPECT_THAT(rig_.sent(), ElementsAre("UC_SEND_FIRST 000200 bytes 256", "UC_SEND_MIDDLE 000201 bytes 256",
                                       "UC_SEND_LAST 000202 bytes 88"));
  EXPECT_THAT(rig_.completed(), ElementsAre("send 1: success"));
}

TEST_F(Uc, OperationsItHas) {
  EXPECT_EQ(rig_.post(rig_.write_wr(4)), PostResult::kOk);
  EXPECT_EQ(rig_.post(rig_.read_wr(4)), PostResult::kBadOpcode);
  EXPECT_EQ(rig_.post(rig_.atomic_wr(WrOpcode::kFetchAdd)), PostResult::kBadOpcode);
  SendWr inv = rig_.send_wr(4);
  inv.opcode = WrOpcode::kSendWithInv;
  EXPECT_EQ(rig_.post(inv), PostResult::kBadOpcode);
}

TEST_F(Uc, ReceivesWithoutAnswering) {
  rig_.receive(1);
  rig_.arrive({send(kOpSendFirst, 0x100, 256, kUc), send(kOpSendLast, 0x101, 4, kUc)});
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 1: success, 260 bytes"));
  EXPECT_THAT(rig_.sent(), IsEmpty());
}

TEST_F(Uc, EachPacketOfAMessageLostInTurn) {
  for (uint32_t lost = 0; lost < 4; lost++) {
    Rig rig(options());
    rig.receive(1);
    rig.receive(2);
    constexpr uint8_t kKinds[] = {kOpSendFirst, kOpSendMiddle, kOpSendMiddle, kOpSendLast};
    for (uint32_t i = 0; i < 4; i++) {
      if (i != lost) rig.arrive(send(kKinds[i], 0x100 + i, 256, kUc));
    }
    EXPECT_THAT(rig.completed(), IsEmpty()) << lost;
    // The next message arrives in the receive that the lost one had taken.
    rig.arrive(send(kOpSendOnly, 0x104, 8, kUc));
    EXPECT_THAT(rig.completed(), ElementsAre("recv 1: success, 8 bytes")) << lost;
    EXPECT_THAT(rig.sent(), IsEmpty());
  }
}

TEST_F(Uc, HalvesOfTwoMessagesAreNeverJoined) {
  rig_.receive(1);
  rig_.arrive(send(kOpSendFirst, 0x100, 256, kUc));
  rig_.arrive(send(kOpSendLast, 0x103, 256, kUc));  // 0x101 and 0x102 were lost: end of one message, start of the next
  EXPECT_THAT(rig_.completed(), IsEmpty());
  EXPECT_EQ(rig_.counted(), "rx_drop_uc_sequence 1");
}

TEST_F(Uc, AWriteGoesOnOnlyInOrder) {
  rig_.arrive(write(kOpWriteFirst, 0x100, rig_.remote_va(), rig_.rkey(), 600, 256, kUc));
  EXPECT_EQ(rig_.remote()[0], payload_byte(0x100, 0));
  const uint8_t before = rig_.remote()[512];
  rig_.arrive(packet(kOpWriteLast, 0x102, 88, kUc));
  EXPECT_EQ(rig_.remote()[512], before);
  EXPECT_EQ(rig_.remote()[256], static_cast<uint8_t>(256 * 3 + 5));
  EXPECT_EQ(rig_.counted(), "rx_drop_uc_sequence 1");
}

TEST_F(Uc, WriteWithImmediate) {
  rig_.receive(1);
  rig_.arrive(write(kOpWriteOnlyImm, 0x100, rig_.remote_va(), rig_.rkey(), 4, 4, kUc));
  EXPECT_THAT(rig_.completed(), ElementsAre("recv write-imm 1: success, 4 bytes, imm 44332211"));
}

TEST_F(Uc, WithoutAReceiveTheMessageIsGone) {
  rig_.arrive(send(kOpSendOnly, 0x100, 4, kUc));
  EXPECT_EQ(rig_.counted(), "rx_drop_no_receive 1");
  rig_.receive(1);
  rig_.arrive(send(kOpSendOnly, 0x101, 4, kUc));
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 1: success, 4 bytes"));
}

TEST_F(Uc, ABadKeyDropsTheMessageNotTheQp) {
  rig_.arrive(write(kOpWriteFirst, 0x100, rig_.remote_va(), rig_.rkey() ^ 0x100, 300, 256, kUc));
  rig_.arrive(packet(kOpWriteLast, 0x101, 44, kUc));
  EXPECT_EQ(rig_.counted(), "resp_remote_access_errors 1, rx_drop_uc_sequence 1");
  EXPECT_EQ(rig_.qp().state(), QpState::kRts);
  EXPECT_EQ(rig_.remote()[0], 5);
}

/// 60,000 keys are guessed in a minute: 64 guesses are checked, then one a second, and the program is told once.
TEST_F(Uc, KeysCannotBeGuessedAtTheSpeedOfTheWire) {
  rig_.arrive(write(kOpWriteOnly, 0x100, rig_.remote_va(), rig_.rkey(), 4, 4, kUc));
  EXPECT_EQ(rig_.counted(), "rx_write_requests 1");
  constexpr uint32_t kGuesses = 60'000;
  for (uint32_t i = 0; i < kGuesses; i++) {
    if (i % 1000 == 0) rig_.advance(milliseconds(1000));
    rig_.arrive(write(kOpWriteOnly, 0x101 + i, rig_.remote_va(), rig_.rkey() + 0x100 + i, 4, 4, kUc));
  }
  EXPECT_EQ(rig_.counted(), "resp_remote_access_errors 123, rx_drop_key_budget 59877");
  EXPECT_EQ(rig_.qp().state(), QpState::kRts);
  ASSERT_EQ(rig_.observer().responder_errors.size(), 1u);
  EXPECT_EQ(rig_.observer().responder_errors[0].cause, Cause::kKeyBudget);
  // Keys that the peer used before still work.
  rig_.arrive(write(kOpWriteOnly, 0x101 + kGuesses, rig_.remote_va(8), rig_.rkey(), 4, 4, kUc));
  EXPECT_EQ(rig_.counted(), "rx_write_requests 1");
}

/// An honest program uses a stale key: only its own WRITEs with that key suffer, and even new keys work.
TEST_F(Uc, OneStaleKeyCostsNothingElse) {
  for (uint32_t i = 0; i < 10'000; i++) {
    rig_.arrive(write(kOpWriteOnly, 0x100 + i, rig_.remote_va(), rig_.rkey() ^ 0x100, 4, 4, kUc));
  }
  EXPECT_EQ(rig_.counted(), "resp_remote_access_errors 10000");
  rig_.arrive(write(kOpWriteOnly, 0x5000, rig_.remote_va(), rig_.rkey(), 4, 4, kUc));
  EXPECT_EQ(rig_.counted(), "rx_write_requests 1");
  rig_.engine().memory().deregister(rig_.rkey());
  for (uint32_t i = 0; i < 10'000; i++) {
    rig_.arrive(write(kOpWriteOnly, 0x6000 + i, rig_.remote_va(), rig_.rkey(), 4, 4, kUc));
  }
  EXPECT_EQ(rig_.counted(), "resp_remote_access_errors 10000");
  EXPECT_TRUE(rig_.observer().responder_errors.empty());
}

/// When the guessing stops, the budget recovers, and the next flood is reported again.
TEST_F(Uc, TheBudgetOfGuessesComesBack) {
  for (int flood = 0; flood < 3; flood++) {
    for (uint32_t i = 0; i < 200; i++) {
      const uint32_t key = rig_.rkey() + 0x100 * (1 + i + 200 * static_cast<uint32_t>(flood));
      rig_.arrive(write(kOpWriteOnly, 0x100, rig_.remote_va(), key, 4, 4, kUc));
    }
    EXPECT_EQ(rig_.counted(), "resp_remote_access_errors 64, rx_drop_key_budget 136");
    EXPECT_EQ(rig_.observer().responder_errors.size(), static_cast<size_t>(flood + 1));
    rig_.advance(milliseconds(64'000));
  }
}

/// An empty WRITE is accepted with every key: it accesses nothing, and tells nothing of the key.
TEST_F(Uc, AWriteOfNothingSaysNothingOfItsKey) {
  for (uint32_t i = 0; i < 100; i++) {
    rig_.receive(i);
    rig_.arrive(write(kOpWriteOnlyImm, 0x100 + i, rig_.remote_va(), rig_.rkey() + i, 0, 0, kUc));
    EXPECT_EQ(rig_.completed().size(), 1u);
    if (i % 8 == 7) rig_.counted();
  }
}

TEST_F(Uc, PacketsOfTheWrongLength) {
  rig_.receive(1);
  rig_.arrive(send(kOpSendFirst, 0x100, 200, kUc));
  EXPECT_EQ(rig_.counted(), "rx_drop_uc_length 1");
  rig_.arrive(send(kOpSendOnly, 0x101, 257, kUc));
  EXPECT_EQ(rig_.counted(), "rx_drop_uc_length 1");
  rig_.arrive({send(kOpSendFirst, 0x102, 256, kUc), send(kOpSendLast, 0x103, 0, kUc)});
  EXPECT_EQ(rig_.counted(), "rx_drop_uc_length 1");
  rig_.arrive(send(kOpSendOnly, 0x104, 256, kUc));
  EXPECT_EQ(rig_.completed().size(), 1u);
}

TEST_F(Uc, PaddingMustReachAMultipleOfFour) {
  rig_.receive(1);
  rig_.arrive(frame_with_pad(5, 0));
  rig_.arrive(frame_with_pad(9, 2));
  EXPECT_EQ(rig_.counted(), "rx_drop_bad_pad 2");
  rig_.arrive(frame_with_pad(8, 2));
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 1: success, 6 bytes"));
}

TEST_F(Uc, AKeyThatGoesAwayInTheMiddleIsAnAccessError) {
  rig_.arrive(write(kOpWriteFirst, 0x100, rig_.remote_va(), rig_.rkey(), 300, 256, kUc));
  EXPECT_EQ(rig_.counted(), "");
  rig_.engine().memory().deregister(rig_.rkey());
  rig_.arrive(packet(kOpWriteLast, 0x101, 44, kUc));
  EXPECT_EQ(rig_.counted(), "resp_remote_access_errors 1");
}

TEST_F(Uc, AMessageTooLongLeavesTheReceive) {
  rig_.receive(1, 300);
  rig_.arrive(
      {send(kOpSendFirst, 0x100, 256, kUc), send(kOpSendMiddle, 0x101, 256, kUc), send(kOpSendLast, 0x102, 8, kUc)});
  EXPECT_THAT(rig_.completed(), IsEmpty());
  EXPECT_EQ(rig_.counted(), "rx_drop_uc_sequence 1, rx_drop_receive_too_short 1");
  rig_.arrive(send(kOpSendOnly, 0x103, 8, kUc));
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 1: success, 8 bytes"));
}

TEST_F(Uc, AMessageTooLongEndsAReceiveOfASharedQueue) {
  RigOptions with_queue = options();
  with_queue.use_srq = true;
  Rig rig(with_queue);
  rig.receive(1, 8);
  rig.receive(2, 12);
  rig.arrive(send(kOpSendOnly, 0x100, 12, kUc));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: local length error"));
  rig.arrive(send(kOpSendOnly, 0x101, 12, kUc));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 2: success, 12 bytes"));
}

TEST_F(Uc, WriteTotalsMustFit) {
  rig_.arrive(write(kOpWriteOnly, 0x100, rig_.remote_va(), rig_.rkey(), 8, 4, kUc));
  EXPECT_EQ(rig_.counted(), "rx_drop_uc_length 1");
  rig_.arrive(write(kOpWriteFirst, 0x101, rig_.remote_va(), rig_.rkey(), 0x80000001, 256, kUc));
  EXPECT_EQ(rig_.counted(), "rx_drop_uc_length 1");
  EXPECT_EQ(rig_.remote()[0], 5);
}

TEST_F(Uc, NumbersWrap) {
  RigOptions options;
  options.type = QpType::kUc;
  options.attributes.rq_psn = Psn(0xFFFFFF);
  Rig rig(options);
  rig.receive(1);
  rig.arrive({send(kOpSendFirst, 0xFFFFFF, 256, kUc), send(kOpSendLast, 0, 4, kUc)});
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: success, 260 bytes"));
}

TEST_F(Uc, ALocalErrorStopsOnlyTheSendQueue) {
  SendWr bad = rig_.send_wr(16, 1);
  Sge sge = *bad.sges;
  sge.lkey ^= 0x100;
  bad.sges = &sge;
  rig_.post(bad);
  EXPECT_THAT(rig_.completed(), ElementsAre("send 1: local protection error"));
  EXPECT_EQ(rig_.qp().state(), QpState::kSqe);
  EXPECT_EQ(rig_.post(rig_.send_wr(4, 2)), PostResult::kOk);
  EXPECT_THAT(rig_.completed(), ElementsAre("send 2: work request flushed"));
  rig_.receive(3);
  rig_.arrive(send(kOpSendOnly, 0x100, 4, kUc));
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 3: success, 4 bytes"));
  EXPECT_EQ(rig_.modify(QpState::kRts), ModifyResult::kOk);
  rig_.post(rig_.send_wr(4, 4));
  EXPECT_THAT(rig_.completed(), ElementsAre("send 4: success"));
}

}  // namespace
}  // namespace uroce::test
