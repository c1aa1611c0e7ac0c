// What a capture says of packets, as far as can be known.
#include "uroce/packet_comments.h"

#include <gtest/gtest.h>

#include <utility>

#include "packet/opcode.h"
#include "roce_frame.h"

namespace uroce::launcher {
namespace {

using test::Bytes;

Route back(Route path) {
  std::swap(path.src_ip, path.dst_ip);
  std::swap(path.src_mac, path.dst_mac);
  return path;
}

Bytes send_only(const Route& path, uint32_t dest_qp) {
  Bth bth;
  bth.opcode = make_opcode(Service::kRc, kOpSendOnly);
  bth.dest_qp = dest_qp;
  return test::frame_of(path, bth, {}, {1, 2, 3});
}

Bytes datagram(uint32_t src_qp, uint32_t dest_qp) {
  Bth bth;
  bth.opcode = make_opcode(Service::kUd, kOpSendOnly);
  bth.dest_qp = dest_qp;
  Bytes deth;
  test::append(deth, Deth{0x11111111, src_qp});
  return test::frame_of(test::ipv4_path(), bth, deth, {1, 2, 3, 4});
}

TEST(PacketComments, TheSendersPacketsTellTheReceiversWhoTheirPeerIs) {
  PacketComments comments;
  const Route there = test::ipv4_path();
  EXPECT_EQ(comments.describe("b[2]", false, 0, send_only(there, 0x21)), "b[2] QP 0x000021 from 10.0.0.1")
      << "nobody knows yet";
  EXPECT_EQ(comments.describe("a[1]", true, 0x11, send_only(there, 0x21)), "a[1] QP 0x000011 to 10.0.0.2 QP 0x000021");
  EXPECT_EQ(comments.describe("b[2]", false, 0, send_only(there, 0x21)), "b[2] QP 0x000021 from 10.0.0.1 QP 0x000011");
  EXPECT_EQ(comments.describe("a[1]", false, 0, send_only(back(there), 0x11)),
            "a[1] QP 0x000011 from 10.0.0.2 QP 0x000021")
      << "also when the peer is not captured";
}

TEST(PacketComments, TheSameNumberElsewhereIsAnotherQueuePair) {
  PacketComments comments;
  comments.describe("a[1]", true, 0x11, send_only(test::ipv4_path(), 0x21));
  EXPECT_EQ(comments.describe("c[3]", false, 0, send_only(test::ipv6_path(), 0x21)), "c[3] QP 0x000021 from fd00::1");
}

TEST(PacketComments, DatagramsSayWhoSentThemAndConnectNobody) {
  PacketComments comments;
  EXPECT_EQ(comments.describe("a[1]", true, 0x11, datagram(0x11, 0x21)), "a[1] QP 0x000011 to 10.0.0.2 QP 0x000021");
  EXPECT_EQ(comments.describe("b[2]", false, 0, datagram(0x12, 0x21)), "b[2] QP 0x000021 from 10.0.0.1 QP 0x000012");
  EXPECT_EQ(comments.describe("b[2]", false, 0, send_only(test::ipv4_path(), 0x21)), "b[2] QP 0x000021 from 10.0.0.1");
}

TEST(PacketComments, OtherFramesAreTheProgramsAndNoMore) {
  PacketComments comments;
  const Bytes nonsense(60, 0xAB);
  EXPECT_EQ(comments.describe("a[1]", true, 0, nonsense), "a[1]");
  EXPECT_EQ(comments.describe("a[1]", false, 0, {}), "a[1]");
}

}  // namespace
}  // namespace uroce::launcher
