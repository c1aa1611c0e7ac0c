// Unreliable datagrams.
#include <gmock/gmock.h>

#include <cstring>

#include "rig.h"
#include "transport/address_handle.h"
#include "transport/qp_events.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Ud : public testing::TestWithParam<bool> {
 protected:
  static RigOptions options(bool ipv6) {
    RigOptions o;
    o.type = QpType::kUd;
    o.ipv6 = ipv6;
    return o;
  }
  std::unique_ptr<AddressHandle> handle(Rig& rig) {
    AddressVector av;
    av.sgid_index = GetParam() ? 2 : 1;
    av.dgid = rig.path_from_peer().src_ip;
    return rig.engine().create_ah(rig.pd(), av, rig.now());
  }
  SendWr datagram_wr(const AddressHandle& ah, uint32_t bytes, uint64_t wr_id) {
    SendWr wr = rig_.send_wr(bytes, wr_id);
    wr.ah = &ah;
    wr.remote_qpn = 0x424242;
    wr.remote_qkey = 0x1234;
    return wr;
  }

  Rig rig_{options(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(Families, Ud, testing::Bool());

TEST_P(Ud, SendsToTheHandlesAddress) {
  auto ah = handle(rig_);
  ASSERT_NE(ah, nullptr);
  rig_.resolve_peer();
  ASSERT_TRUE(ah->resolved);
  rig_.post(datagram_wr(*ah, 100, 1));
  const auto frames = rig_.sent_frames();
  ASSERT_EQ(frames.size(), 1u);
  PacketView view;
  ASSERT_EQ(parse_frame(frames[0], view), ParseResult::kOk);
  EXPECT_TRUE(icrc_matches(view));
  EXPECT_EQ(view.bth.opcode, 0x64);
  EXPECT_EQ(view.bth.dest_qp, 0x424242u);
  EXPECT_FALSE(view.bth.ack_req);
  EXPECT_EQ(view.bth.psn, Psn(0x200));
  EXPECT_EQ(view.deth().qkey, 0x1234u);
  EXPECT_EQ(view.deth().src_qp, rig_.qp().qpn());
  EXPECT_EQ(view.dst_ip, rig_.path_from_peer().src_ip);
  EXPECT_EQ(view.payload_bytes, 100u);
  EXPECT_THAT(rig_.completed(), ElementsAre("send 1: success"));
  rig_.engine().destroy_ah(ah.get());
}

TEST_P(Ud, AControlledQkeyMeansTheQpsOwn) {
  auto ah = handle(rig_);
  rig_.resolve_peer();
  SendWr wr = datagram_wr(*ah, 4, 1);
  wr.remote_qkey = 0x80000000u;
  rig_.post(wr);
  PacketView view;
  const auto frames = rig_.sent_frames();
  ASSERT_EQ(frames.size(), 1u);
  ASSERT_EQ(parse_frame(frames[0], view), ParseResult::kOk);
  EXPECT_EQ(view.deth().qkey, Rig::kQkey);
  rig_.engine().destroy_ah(ah.get());
}

TEST_P(Ud, TheGrhAreaHoldsTheIpHeader) {
  rig_.receive(1, 200);
  rig_.arrive(datagram(0x5, 10, Rig::kQkey, 0x333));
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 1: success, 50 bytes"));
  const uint8_t* at = rig_.local() + Rig::kMemoryBytes / 2 + 2048;
  if (GetParam()) {
    EXPECT_EQ(at[0] >> 4, 6);
    EXPECT_EQ(std::memcmp(at + 8, rig_.path_from_peer().src_ip.bytes.data(), 16), 0);
    EXPECT_EQ(std::memcmp(at + 24, rig_.path_from_peer().dst_ip.bytes.data(), 16), 0);
  } else {
    EXPECT_EQ(at[20], 0x45);
    EXPECT_EQ(std::memcmp(at + 32, rig_.path_from_peer().src_ip.bytes.data() + 12, 4), 0);
    EXPECT_EQ(std::memcmp(at + 36, rig_.path_from_peer().dst_ip.bytes.data() + 12, 4), 0);
  }
  for (uint32_t i = 0; i < 10; i++) EXPECT_EQ(at[40 + i], payload_byte(0x5, i));
}

TEST_P(Ud, CompletionNamesTheSender) {
  rig_.receive(1, 200);
  rig_.arrive(datagram(0x5, 10, Rig::kQkey, 0x333));
  Completion c;
  ASSERT_EQ(rig_.recv_cq().poll(std::span(&c, 1)), 1u);
  EXPECT_EQ(c.src_qp, 0x333u);
  EXPECT_EQ(c.flags, kWcGrh);
}

// RoCE has no service level to report. Drivers put the kind of IP header there, which UCX reads: 1 is IPv6, 2 IPv4.
TEST_P(Ud, CompletionNamesTheKindOfIpHeader) {
  rig_.receive(1, 200);
  rig_.arrive(datagram(0x5, 10, Rig::kQkey, 0x333));
  Completion c;
  ASSERT_EQ(rig_.recv_cq().poll(std::span(&c, 1)), 1u);
  EXPECT_EQ(c.sl, GetParam() ? 1 : 2);
}

TEST_P(Ud, OrderDoesNotMatter) {
  rig_.receive(1, 200);
  rig_.receive(2, 200);
  rig_.arrive(datagram(0x9, 1, Rig::kQkey, 0x333));
  rig_.arrive(datagram(0x3, 2, Rig::kQkey, 0x334));
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 1: success, 41 bytes", "recv 2: success, 42 bytes"));
  EXPECT_THAT(rig_.sent(), IsEmpty());
}

TEST_P(Ud, AWrongQkeyIsDropped) {
  rig_.receive(1);
  for (const uint32_t qkey : {0u, Rig::kQkey ^ 1u, Rig::kQkey | 0x80000000u}) rig_.arrive(datagram(1, 4, qkey, 1));
  EXPECT_EQ(rig_.counted(), "rx_drop_bad_qkey 3");
  EXPECT_THAT(rig_.completed(), IsEmpty());
}

TEST_P(Ud, WithoutAReceiveItIsDropped) {
  rig_.arrive(datagram(1, 4, Rig::kQkey, 1));
  EXPECT_EQ(rig_.counted(), "rx_drop_no_receive 1");
  EXPECT_EQ(rig_.qp().state(), QpState::kRts);
}

TEST_P(Ud, MoreThanOneMtuIsRefused) {
  auto ah = handle(rig_);
  EXPECT_EQ(rig_.post(datagram_wr(*ah, rig_.qp().attributes().path_mtu_bytes + 1, 1)), PostResult::kTooLong);
  EXPECT_EQ(rig_.post(datagram_wr(*ah, rig_.qp().attributes().path_mtu_bytes, 1)), PostResult::kOk);
  rig_.engine().destroy_ah(ah.get());
}

TEST_P(Ud, LongerThanTheMtuIsDropped) {
  rig_.receive(1);
  rig_.arrive(datagram(1, rig_.qp().attributes().path_mtu_bytes + 4, Rig::kQkey, 1));
  EXPECT_EQ(rig_.counted(), "rx_drop_ud_length 1");
}

TEST_P(Ud, PaddingMustReachAMultipleOfFour) {
  rig_.receive(1);
  Bth bth;
  bth.opcode = make_opcode(Service::kUd, kOpSendOnly);
  bth.dest_qp = rig_.qp().qpn();
  Bytes body;
  append(body, bth);
  append(body, Deth{Rig::kQkey, 1});
  body.resize(body.size() + 5);
  rig_.arrive(frame_of(rig_.path_from_peer(), body));
  EXPECT_EQ(rig_.counted(), "rx_drop_bad_pad 1");
  EXPECT_THAT(rig_.completed(), IsEmpty());
}

TEST_P(Ud, NeedsAHandle) {
  SendWr wr = rig_.send_wr(4, 1);
  EXPECT_EQ(rig_.post(wr), PostResult::kBadAddressHandle);
}

TEST_P(Ud, OperationsItHas) {
  auto ah = handle(rig_);
  SendWr wr = datagram_wr(*ah, 4, 1);
  for (const WrOpcode opcode : {WrOpcode::kRdmaWrite, WrOpcode::kRdmaWriteWithImm, WrOpcode::kRdmaRead,
                                WrOpcode::kCompareSwap, WrOpcode::kFetchAdd, WrOpcode::kSendWithInv}) {
    wr.opcode = opcode;
    EXPECT_EQ(rig_.post(wr), PostResult::kBadOpcode);
  }
  rig_.engine().destroy_ah(ah.get());
}

TEST_P(Ud, AnyPeerMaySend) {
  rig_.receive(1);
  Route path = rig_.path_from_peer();
  path.src_ip.bytes[15] = 99;
  rig_.set_path_from_peer(path);
  rig_.arrive(datagram(1, 4, Rig::kQkey, 1));
  EXPECT_EQ(rig_.completed().size(), 1u);
}

TEST_P(Ud, ADatagramTooLongLeavesTheReceive) {
  rig_.receive(1, 43);
  rig_.receive(2, 44);
  rig_.arrive(datagram(1, 4, Rig::kQkey, 1));
  rig_.arrive(datagram(2, 4, Rig::kQkey, 1));
  EXPECT_THAT(rig_.completed(), IsEmpty());
  EXPECT_EQ(rig_.counted(), "rx_drop_receive_too_short 2");
  // Reported once, and not as an error of the queue pair.
  ASSERT_EQ(rig_.observer().responder_errors.size(), 1u);
  EXPECT_EQ(rig_.observer().responder_errors[0].cause, Cause::kReceiveTooShort);
  EXPECT_EQ(rig_.qp().first_error(), std::nullopt);
  rig_.arrive(datagram(3, 3, Rig::kQkey, 1));
  rig_.arrive(datagram(4, 4, Rig::kQkey, 1));
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 1: success, 43 bytes", "recv 2: success, 44 bytes"));
}

/// A receive that was too short is not consumed: it is flushed when the queue pair ends.
TEST_P(Ud, AReceiveThatWasTooShortIsFlushed) {
  rig_.receive(1, 43);
  rig_.receive(2, 44);
  rig_.arrive(datagram(1, 4, Rig::kQkey, 1));
  rig_.modify(QpState::kErr);
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 1: work request flushed", "recv 2: work request flushed"));
}

TEST_P(Ud, ADatagramTooLongEndsAReceiveOfASharedQueue) {
  RigOptions with_queue = options(GetParam());
  with_queue.use_srq = true;
  Rig rig(with_queue);
  rig.receive(1, 43);
  rig.receive(2, 44);
  rig.arrive(datagram(1, 4, Rig::kQkey, 1));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: local length error"));
  EXPECT_EQ(rig.counted(), "resp_local_length_error 1, resp_cqe_error 1, rx_drop_receive_too_short 1");
  EXPECT_EQ(rig.observer().responder_errors.size(), 1u);
  EXPECT_EQ(rig.qp().first_error(), std::nullopt);
  rig.arrive(datagram(2, 4, Rig::kQkey, 1));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 2: success, 44 bytes"));
}

TEST_P(Ud, NoConnectionAttributes) { EXPECT_FALSE(rig_.qp().connected()); }

}  // namespace
}  // namespace uroce::test
