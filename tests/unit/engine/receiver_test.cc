// What arrives is delivered, answered by the part of the engine that it concerns, or a counted drop.
#include "engine/receiver.h"

#include <algorithm>
#include <optional>

#include "engine_parts.h"
#include "packet/host_frames.h"
#include "scribbled_port.h"
#include "transport/completion_queue.h"
#include "transport/memory_table.h"
#include "transport/qp.h"

namespace uroce::test {
namespace {

class ReceiverTest : public EngineParts {
 protected:
  /// A frame from the peer with a payload of 4 bytes.
  Bytes frame(const Bth& bth, const Route& path = ipv4_path()) { return frame_of(path, bth, {}, Bytes(4, 0x55)); }
  uint32_t arrive(const Bytes& frame) {
    EXPECT_TRUE(port_.deliver(frame));
    return receiver_.receive(kNow);
  }
  /// A QP with a receive posted.
  Qp& waiting() {
    Qp& qp = connected();
    receive(qp);
    return qp;
  }
  void receive(Qp& qp) {
    RecvWr wr;
    const Sge sge{reinterpret_cast<uint64_t>(memory_), sizeof memory_,
                  objects_.memory().register_region(pd_, memory_, sizeof memory_, reinterpret_cast<uint64_t>(memory_),
                                                    kLocalWrite)};
    wr.sges = &sge;
    wr.num_sge = 1;
    EXPECT_EQ(qp.post_recv(wr, kNow), PostResult::kOk);
  }
  uint32_t completions() {
    Completion completion[4];
    return cq_->poll(completion);
  }

  /// An echo request, a frame of `bytes` bytes.
  Bytes ping(uint32_t bytes) {
    const Bytes message(bytes - 14 - 20);
    Bytes frame(bytes);
    // An echo reply of the peer's turned into a request: another type, and the checksum that follows from it.
    const Icmp asked{config_.addresses[0].ip, kPeerIp, 64, message};
    EXPECT_EQ(encode_echo_reply(frame, {config_.mac, kPeerMac, 0}, asked), bytes);
    frame[34] = 8;
    store_be16(&frame[36], 0xFFFF - 0x0800);
    return frame;
  }

  uint8_t memory_[64] = {};
  Receiver receiver_{
      {port_, addresses_, qps_.table(), schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_},
      counters_};
};

TEST_F(ReceiverTest, APacketReachesItsQp) {
  Qp& qp = waiting();
  const Bytes good = frame(send_to(qp));
  EXPECT_EQ(arrive(good), 1u);
  EXPECT_EQ(completions(), 1u);
  EXPECT_EQ(memory_[3], 0x55);
  EXPECT_EQ(counters_.rx_packets, 1u);
  EXPECT_EQ(counters_.rx_bytes, good.size());
}

TEST_F(ReceiverTest, EachCheckBeforeTheQpHasACounter) {
  Qp& qp = waiting();
  const Bth good = send_to(qp);
  Route elsewhere = ipv4_path();
  elsewhere.dst_ip = IpAddress::v4(0x0A000063);
  Route stranger = ipv4_path();
  stranger.src_ip = IpAddress::v4(0x0A000063);
  Bth nobody = good, other_service = good, other_pkey = good;
  nobody.dest_qp ^= 1;
  other_service.opcode = make_opcode(Service::kRc, kOpSendOnly);
  other_pkey.pkey = 0x8001;
  Bytes broken = frame(good);
  broken[broken.size() - 6] ^= 1;
  arrive(frame(good, elsewhere));
  EXPECT_EQ(counters_.rx_drop_not_for_us, 1u);
  arrive(frame(nobody));
  EXPECT_EQ(counters_.rx_drop_no_qp, 1u);
  arrive(frame(other_service));
  EXPECT_EQ(counters_.rx_drop_qp_service, 1u);
  arrive(frame(good, stranger));
  EXPECT_EQ(counters_.rx_drop_wrong_peer, 1u);
  arrive(frame(other_pkey));
  EXPECT_EQ(counters_.rx_drop_bad_pkey, 1u);
  arrive(broken);
  EXPECT_EQ(counters_.rx_icrc_encapsulated, 1u);
  EXPECT_EQ(completions(), 0u);
  Qp& reset = *qps_.create(init(), nullptr);
  arrive(frame(send_to(reset)));
  EXPECT_EQ(counters_.rx_drop_qp_state, 1u);
}

TEST_F(ReceiverTest, AKnownSenderIsCheckedLikeAnyOther) {
  Qp& qp = waiting();
  for (uint32_t psn = 0; psn < 4; psn++) arrive(frame(send_to(qp, psn)));
  EXPECT_EQ(completions(), 1u) << "there was one receive";
  Bytes broken = frame(send_to(qp, 4));
  broken[broken.size() - 6] ^= 1;
  arrive(broken);
  EXPECT_EQ(counters_.rx_icrc_encapsulated, 1u);
  // The QP is connected to another peer.
  QpAttributes attributes;
  attributes.state = QpState::kReset;
  ASSERT_EQ(qp.modify(attributes, kAttrState, nullptr, false, kNow), ModifyResult::kOk);
  arrive(frame(send_to(qp, 5)));
  EXPECT_EQ(counters_.rx_drop_qp_state, 1u);
  attributes.path_mtu_bytes = 256;
  attributes.av = to(IpAddress::v4(0x0A000063));
  const std::optional<Route> path = router_.route(attributes.av, 1);
  for (const QpState state : {QpState::kInit, QpState::kRtr}) {
    attributes.state = state;
    const uint32_t mask = required_attributes(QpType::kUc, qp.state(), state);
    ASSERT_EQ(qp.modify(attributes, mask, &*path, true, kNow), ModifyResult::kOk);
  }
  arrive(frame(send_to(qp, 6)));
  EXPECT_EQ(counters_.rx_drop_wrong_peer, 1u);
  // The QP is destroyed, and another one has its slot.
  const uint32_t slot = qp.index();
  const Bth gone = send_to(qp, 7);
  qps_.destroy(qp);
  while (qps_.create(init(), nullptr) != nullptr) {
  }
  ASSERT_NE(qps_.table().at(slot), nullptr);
  arrive(frame(gone));
  EXPECT_EQ(counters_.rx_drop_no_qp, 1u);
}

TEST_F(ReceiverTest, AnAddressThatIsNotOursAnyMoreIsNotKnown) {
  Qp& qp = waiting();
  for (uint32_t psn = 0; psn < 3; psn++) arrive(frame(send_to(qp, psn)));
  ASSERT_TRUE(addresses_.set({}));
  arrive(frame(send_to(qp, 3)));
  EXPECT_EQ(counters_.rx_drop_not_for_us, 1u);
}

TEST_F(ReceiverTest, FramesOfOneBurstMayBeKnownThanksToEachOther) {
  Qp& qp = connected();
  Qp& other = connected();
  const auto of_both = [&](uint32_t psn) {
    for (Qp* to : {&qp, &other}) ASSERT_TRUE(port_.deliver(frame(send_to(*to, psn))));
  };
  for (uint32_t psn = 0; psn < 11; psn++) of_both(psn);
  EXPECT_EQ(receiver_.receive(kNow), 22u);
  of_both(11);
  EXPECT_EQ(receiver_.receive(kNow), 2u);
  EXPECT_EQ(counters_.rx_packets, 24u);
  EXPECT_EQ(counters_.rx_bytes, 24 * frame(send_to(qp)).size());
  EXPECT_EQ(counters_.rx_drop_no_receive, 24u) << "no receive was posted";
}

/// New headers displace those that a later frame of the burst was recognised by.
TEST_F(ReceiverTest, AFrameIsNotTakenForOneOfThoseThatDisplacedIt) {
  Qp& known = waiting();
  Qp& other = waiting();
  const auto found_after = [&](const Bytes& displacing) {
    KnownHeaders headers;
    const Bytes own = frame(send_to(known));
    PacketView view;
    for (const Bytes* noted : {&own, &own, &displacing, &displacing}) {
      EXPECT_EQ(parse_frame(*noted, view), ParseResult::kOk);
      headers.note(view, 0, 0);
    }
    return headers.find({own.data(), static_cast<uint32_t>(own.size())}) != nullptr;
  };
  Bytes displacing;
  for (const uint8_t low : {kOpSendOnly, kOpSendFirst, kOpSendMiddle, kOpSendLast, kOpWriteFirst, kOpWriteMiddle}) {
    for (uint32_t bits = 0; bits < 32 && displacing.empty(); bits++) {
      Bth bth = send_to(other);
      bth.opcode = make_opcode(Service::kUc, low);
      bth.solicited = (bits & 1) != 0;
      bth.mig_req = (bits & 2) != 0;
      bth.pkey = (bits & 4) != 0 ? 0x7FFF : kDefaultPkey;
      const Bytes payload(4 + (bits >> 3), 0x55);
      const Bytes candidate = frame_of(ipv4_path(), bth, Bytes(opcode_info(bth.opcode).header_bytes), payload);
      if (!found_after(candidate)) displacing = candidate;
    }
  }
  ASSERT_FALSE(displacing.empty()) << "no two of these headers have one place";
  for (uint32_t psn = 0; psn < 2; psn++) arrive(frame(send_to(known, psn)));
  EXPECT_EQ(completions(), 1u);
  receive(known);
  for (int i = 0; i < 2; i++) ASSERT_TRUE(port_.deliver(displacing));
  ASSERT_TRUE(port_.deliver(frame(send_to(known, 2))));
  EXPECT_EQ(receiver_.receive(kNow), 3u);
  Completion all[4];
  const uint32_t count = cq_->poll(all);
  EXPECT_EQ(std::count_if(all, all + count, [&](const Completion& c) { return c.qp_num == known.qpn(); }), 1);
}

TEST_F(ReceiverTest, WhatIsNotRoceGoesToWhomItConcerns) {
  Bytes request(100);
  request.resize(encode_arp(request, {kBroadcastMac, kPeerMac, 0},
                            {Arp::kRequest, kPeerMac, kPeerIp, {}, config_.addresses[0].ip}));
  arrive(request);
  EXPECT_EQ(counters_.arp_rx, 1u);
  EXPECT_LE(neighbours_.next_timeout(), kNow) << "it is answered";
  arrive(pause_frame(1u << kLossless, 0xFFFF));
  EXPECT_EQ(pfc_.paused(), 1u << kLossless);
  EXPECT_EQ(counters_.rx_drop_not_roce, 0u);
  arrive(Bytes(60, 0x77));
  EXPECT_EQ(counters_.rx_drop_not_roce, 1u);
  arrive(Bytes(5, 0));
  EXPECT_EQ(counters_.rx_drop_truncated, 1u);
}

TEST_F(ReceiverTest, AMarkedPacketOwesOneNotification) {
  Qp& qp = waiting();
  Route marked = ipv4_path();
  marked.traffic_class = 3;
  arrive(frame(send_to(qp), marked));
  EXPECT_EQ(counters_.np_ecn_marked_roce_packets, 1u);
  ASSERT_TRUE(schedule_.cnps_wait());
  arrive(frame(send_to(qp, 1), marked));
  EXPECT_EQ(&schedule_.take_cnp(), &qp);
  EXPECT_FALSE(schedule_.cnps_wait());
}

TEST_F(ReceiverTest, ABacklogPausesTheNeighbourAndItsEndLetsHimGoOn) {
  MemoryPort deep(512, kFrameBytes);
  Receiver receiver(
      {deep, addresses_, qps_.table(), schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_},
      counters_);
  for (uint32_t i = 0; i < config_.pfc.xoff_frames; i++) ASSERT_TRUE(deep.deliver(Bytes(60, 0x77)));
  EXPECT_EQ(receiver.receive(kNow), 64u);
  EXPECT_TRUE(pfc_.pausing());
  receiver.receive(kNow);
  receiver.receive(kNow);
  EXPECT_FALSE(pfc_.pausing());
  EXPECT_EQ(counters_.rx_drop_not_roce, config_.pfc.xoff_frames);
}

TEST_F(ReceiverTest, FramesToOurselvesArriveOnce) {
  Qp& qp = waiting();
  loopback_.open();
  Bytes own = frame(send_to(qp));
  loopback_.push({own.data(), kFrameBytes, static_cast<uint32_t>(own.size()), nullptr});
  EXPECT_EQ(receiver_.drain_loopback(kNow), 1u);
  EXPECT_EQ(completions(), 1u);
  EXPECT_EQ(receiver_.drain_loopback(kNow), 0u);
}

TEST_F(ReceiverTest, APingIsCopiedBeforeItIsReadIfItMayChange) {
  ScribbledPort port(port_);
  Receiver receiver(
      {port, addresses_, qps_.table(), schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_},
      counters_);
  for (const uint32_t bytes : {60u, 127u, 128u, 129u, 1000u}) {
    ASSERT_TRUE(port_.deliver(ping(bytes)));
    EXPECT_EQ(receiver.receive(kNow), 1u);
  }
  EXPECT_EQ(counters_.echo_replies, 5u);
  MemoryPort long_frames(4, 4096);
  ScribbledPort scribbled(long_frames);
  Receiver of_long(
      {scribbled, addresses_, qps_.table(), schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_},
      counters_);
  ASSERT_TRUE(long_frames.deliver(ping(2048)));
  EXPECT_EQ(of_long.receive(kNow), 1u);
  EXPECT_EQ(counters_.echo_replies, 6u);
  ASSERT_TRUE(long_frames.deliver(ping(2049)));
  EXPECT_EQ(of_long.receive(kNow), 1u);
  EXPECT_EQ(counters_.rx_drop_not_roce, 1u) << "there is no room for a copy";
}

}  // namespace
}  // namespace uroce::test
