// Whose frames leave first, and which never see the port.
#include "engine/transmitter.h"

#include "engine/qpn_blocks.h"
#include "engine_parts.h"
#include "listed_blocks.h"
#include "packet/packet.h"
#include "transport/qp.h"

namespace uroce::test {
namespace {

class TransmitterTest : public EngineParts {
 protected:
  /// A SEND that is to be acknowledged.
  Bth ask(const Qp& qp) const {
    Bth bth = send_to(qp);
    bth.ack_req = true;
    return bth;
  }
  /// The frames that left, one word each: a packet's destination address, "cnp", "pause" or "host".
  std::string left() {
    std::string words;
    while (const auto frame = port_.take()) {
      PacketView packet;
      if (parse_frame(*frame, packet) != ParseResult::kOk) {
        words += is_mac_control(*frame) ? "pause " : "host ";
      } else {
        words += packet.info->operation == Operation::kCnp ? "cnp " : to_string(packet.dst_ip) + " ";
      }
    }
    return words;
  }

  Transmitter transmitter_{
      {port_, qps_.table(), schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_},
      counters_,
      config_.mac};
};

TEST_F(TransmitterTest, NothingToSendAsksThePortForNothing) {
  EXPECT_EQ(transmitter_.transmit(kNow), 0u);
  EXPECT_EQ(counters_.tx_port_full, 0u);
}

TEST_F(TransmitterTest, AllThatWaitsLeavesAndIsCounted) {
  post(connected(), 7);
  EXPECT_EQ(transmitter_.transmit(kNow), 7u);
  EXPECT_EQ(counters_.tx_packets, 7u);
  uint64_t bytes = 0;
  while (const auto frame = port_.take()) bytes += frame->size();
  EXPECT_GT(bytes, 0u);
  EXPECT_EQ(counters_.tx_bytes, bytes);
  EXPECT_FALSE(schedule_.wants_transmit());
}

TEST_F(TransmitterTest, PausesNeighboursAndNewsOfCongestionGoFirst) {
  Qp& qp = connected();
  post(qp);
  ASSERT_TRUE(qp.on_marked(kNow));
  schedule_.want_cnp(qp);
  neighbours_.want(*parse_ip("10.0.0.99"), config_.addresses[0], kNow);
  pfc_.on_backlog(config_.pfc.xoff_frames, kNow);
  EXPECT_EQ(transmitter_.transmit(kNow), 4u);
  EXPECT_EQ(left(), "pause host cnp 10.0.0.1 ");
  EXPECT_EQ(counters_.np_cnp_sent, 1u);
}

TEST_F(TransmitterTest, APausedPriorityIsSilentUntilItMayGoOn) {
  Qp& paused = connected(to(kPeerIp, kLossless << 5));
  Qp& other = connected(to(kPeerIp));
  post(paused);
  post(other);
  ASSERT_TRUE(pfc_.on_frame(pause_frame(1u << kLossless, 0xFFFF), kNow));
  EXPECT_EQ(transmitter_.transmit(kNow), 1u);
  EXPECT_FALSE(other.wants_transmit());
  EXPECT_TRUE(paused.wants_transmit());
  EXPECT_EQ(transmitter_.transmit(kNow), 0u);
  ASSERT_TRUE(pfc_.on_frame(pause_frame(1u << kLossless, 0), kNow));
  EXPECT_EQ(transmitter_.transmit(kNow), 1u);
  EXPECT_FALSE(paused.wants_transmit());
}

TEST_F(TransmitterTest, FramesToOurselvesStayHere) {
  post(connected(to(config_.addresses[0].ip)), 2);
  EXPECT_EQ(transmitter_.transmit(kNow), 0u);
  EXPECT_EQ(port_.sent(), 0u);
  EXPECT_EQ(loopback_.size(), 2u);
  EXPECT_EQ(counters_.loopback_packets, 2u);
}

TEST_F(TransmitterTest, FramesToOtherProgramsOfThisHostLeave) {
  ListedBlocks blocks({5});
  QpTable ours(4, random_, &blocks);
  ASSERT_NE(ours.next_free().index, QpTable::kNone);
  Transmitter transmitter({port_, ours, schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_},
                          counters_, config_.mac);
  for (const LocalAddress& own : config_.addresses) {
    post(connected(to(own.ip), QpType::kUc, 5 << kQpnBlockBits | 9));
    EXPECT_EQ(transmitter.transmit(kNow), 0u) << to_string(own);
    EXPECT_EQ(loopback_.size(), 1u);
    loopback_.pop();
    post(connected(to(own.ip), QpType::kUc, 6 << kQpnBlockBits | 9));
    EXPECT_EQ(transmitter.transmit(kNow), 1u) << to_string(own);
    EXPECT_EQ(loopback_.size(), 0u);
  }
  PacketView packet;
  ASSERT_EQ(parse_frame(*port_.take(), packet), ParseResult::kOk);
  EXPECT_EQ(packet.bth.dest_qp, 6u << kQpnBlockBits | 9);
}

TEST_F(TransmitterTest, NewsOfCongestionLeavesForOtherProgramsOfThisHost) {
  ListedBlocks blocks({5});
  QpTable ours(4, random_, &blocks);
  ASSERT_NE(ours.next_free().index, QpTable::kNone);
  Transmitter transmitter({port_, ours, schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_},
                          counters_, config_.mac);
  for (const uint32_t block : {5u, 6u}) {
    Qp& qp = connected(to(config_.addresses[0].ip), QpType::kRc, block << kQpnBlockBits);
    ASSERT_TRUE(qp.on_marked(kNow));
    schedule_.want_cnp(qp);
  }
  EXPECT_EQ(transmitter.transmit(kNow), 1u);
  EXPECT_EQ(left(), "cnp ");
  EXPECT_EQ(loopback_.size(), 1u);
}

TEST_F(TransmitterTest, AFullLoopbackTakesNoMore) {
  Qp& qp = connected(to(config_.addresses[0].ip));
  const Bytes frame(60);
  while (!loopback_.full()) loopback_.push({const_cast<uint8_t*>(frame.data()), 60, 60, nullptr});
  post(qp);
  EXPECT_EQ(transmitter_.transmit(kNow), 0u);
  EXPECT_TRUE(qp.wants_transmit()) << "it waits";
  EXPECT_EQ(counters_.loopback_full, 0u) << "and is not lost";
}

TEST_F(TransmitterTest, FramesWithoutAMacDoNotLeave) {
  post(connected(to(IpAddress::v4(0x0A000063))));
  EXPECT_EQ(transmitter_.transmit(kNow), 0u);
  EXPECT_EQ(counters_.tx_neighbour_unresolved, 1u);
}

TEST_F(TransmitterTest, ALastAckWaitsForTheEndOfAPause) {
  Qp& paused = connected(to(kPeerIp, kLossless << 5), QpType::kRc);
  Qp& other = connected(to(kPeerIp), QpType::kRc);
  ASSERT_TRUE(pfc_.on_frame(pause_frame(1u << kLossless, 0xFFFF), kNow));
  for (Qp* const qp : {&paused, &other}) {
    const Bytes bytes = frame_of(ipv4_path(), ask(*qp), {}, Bytes());
    PacketView packet;
    ASSERT_EQ(parse_frame(bytes, packet), ParseResult::kOk);
    ASSERT_EQ(qp->post_recv({}, kNow), PostResult::kOk);
    qp->on_packet(packet, kNow);
    transmitter_.send_last_ack(*qp, kNow);
    qp->forget_work();
    schedule_.remove(*qp);
    qps_.destroy(*qp);
  }
  EXPECT_EQ(left(), "10.0.0.1 ") << "the other's left at once";
  EXPECT_FALSE(transmitter_.keeps_answers()) << "none that may leave now";
  EXPECT_EQ(transmitter_.transmit(kNow), 0u);
  ASSERT_TRUE(pfc_.on_frame(pause_frame(1u << kLossless, 0), kNow));
  EXPECT_TRUE(transmitter_.keeps_answers());
  EXPECT_EQ(transmitter_.transmit(kNow), 1u);
  EXPECT_EQ(left(), "10.0.0.1 ");
  EXPECT_FALSE(transmitter_.keeps_answers());
}

TEST_F(TransmitterTest, ACongestedPortIsAskedAgainLater) {
  MemoryPort narrow(8, kFrameBytes);
  Transmitter transmitter(
      {narrow, qps_.table(), schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_}, counters_,
      config_.mac);
  post(connected(), 12);
  EXPECT_EQ(transmitter.transmit(kNow), 8u) << "as many as there is room for";
  EXPECT_EQ(transmitter.transmit(kNow), 0u);
  EXPECT_EQ(counters_.tx_port_full, 1u);
  EXPECT_TRUE(schedule_.wants_transmit());
  while (narrow.take()) continue;
  EXPECT_EQ(transmitter.transmit(kNow), 4u);
}

}  // namespace
}  // namespace uroce::test
