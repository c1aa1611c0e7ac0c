// What a port says once of a destination: where it leads, and when that ends.
#include "segment/next_hops.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "node.h"

namespace uroce::segment {
namespace {

using namespace test;

/// Sends with a hop that was found earlier.
bool send_by(Node& node, const NextHop& hop, const std::vector<uint8_t>& bytes) {
  TxFrame frame;
  if (node.port->acquire_tx(&frame, 1) == 0) return false;
  EXPECT_EQ(frame.hop.place, nullptr);
  std::memcpy(frame.data, bytes.data(), bytes.size());
  frame.bytes = static_cast<uint32_t>(bytes.size());
  frame.hop = hop;
  node.port->send(&frame, 1);
  return true;
}

TEST(SegmentHops, AHopLeadsWhereTheFrameWouldGo) {
  const TempDir dir;
  Node a(dir, record_of("one", 1)), b(dir, record_of("one", 1)), c(dir, record_of("two", 2));
  const auto for_b = roce_frame(mac_of(1), b.qpn(), 90);
  const auto for_c = roce_frame(mac_of(2), c.qpn(), 3000);
  a.turn();
  a.send(for_b);
  a.send(for_c);
  settle({&a, &b, &c});
  EXPECT_EQ(b.receive().size() + c.receive().size(), 2u);
  const NextHop to_b = a.port->next_hops()->find(mac_of(1), b.qpn());
  const NextHop to_c = a.port->next_hops()->find(mac_of(2), c.qpn());
  ASSERT_NE(to_b.place, nullptr);
  ASSERT_NE(to_c.place, nullptr);
  EXPECT_NE(to_b.place, to_c.place);
  EXPECT_EQ(to_b.epoch, a.port->next_hops()->epoch());
  ASSERT_TRUE(send_by(a, to_b, for_b) && send_by(a, to_c, for_c));
  EXPECT_EQ(b.receive(), Frames{for_b});
  EXPECT_EQ(c.receive(), Frames{for_c});
  for (int i = 0; i < 1000 && !a.port->next_hops()->congested(to_b); i++) {
    ASSERT_EQ(a.port->congested(mac_of(1), b.qpn()), false);
    send_by(a, to_b, for_b);
  }
  EXPECT_TRUE(a.port->next_hops()->congested(to_b));
  EXPECT_TRUE(a.port->congested(mac_of(1), b.qpn()));
  EXPECT_FALSE(a.port->next_hops()->congested(to_c));
}

TEST(SegmentHops, NothingLeadsToGroupsStrangersAndManagement) {
  const TempDir dir;
  Node a(dir, record_of("one", 1)), b(dir, record_of("two", 2));
  const uint32_t qpn = b.qpn();
  a.turn();
  a.send(roce_frame(mac_of(2), qpn, 90));
  ASSERT_NE(a.port->next_hops()->find(mac_of(2), qpn).place, nullptr);
  EXPECT_EQ(a.port->next_hops()->find(mac_of(2), 0).place, nullptr);
  EXPECT_EQ(a.port->next_hops()->find(mac_of(2), kManagementQpn).place, nullptr);
  EXPECT_EQ(a.port->next_hops()->find(mac_of(2), qpn + (1u << kQpnBlockBits)).place, nullptr);
  EXPECT_EQ(a.port->next_hops()->find(mac_of(3), qpn).place, nullptr);
  EXPECT_EQ(a.port->next_hops()->find({{0x01, 0, 0x5e, 0, 0, 1}}, kMulticastQpn).place, nullptr);
  EXPECT_EQ(a.port->next_hops()->find(MacAddress{}, qpn).place, nullptr);
}

/// Frames with the old hop are then sent by their destination.
TEST(SegmentHops, AHopEndsWithItsMember) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), stays(dir, record_of("host", 1));
  auto goes = std::make_unique<Node>(dir, record_of("host", 1));
  const uint32_t qpn = goes->qpn();
  const auto to_gone = roce_frame(mac_of(1), qpn, 90);
  const auto to_other = roce_frame(mac_of(1), stays.qpn(), 90);
  a.turn();
  a.send(to_gone);
  settle({&a, goes.get()});
  EXPECT_EQ(goes->receive().size(), 1u);
  const NextHop hop = a.port->next_hops()->find(mac_of(1), qpn);
  ASSERT_NE(hop.place, nullptr);
  goes.reset();
  for (int i = 0; i < 20; i++) a.turn(milliseconds(250));
  ASSERT_EQ(a.port->counters().peers_lost, 1u);
  EXPECT_NE(hop.epoch, a.port->next_hops()->epoch());
  ASSERT_TRUE(send_by(a, hop, to_gone));
  EXPECT_EQ(a.port->counters().tx_dropped_nobody, 1u);
  ASSERT_TRUE(send_by(a, hop, to_other));
  settle({&a, &stays});
  EXPECT_EQ(stays.receive(), Frames{to_other});
  EXPECT_EQ(a.port->next_hops()->find(mac_of(1), qpn).place, nullptr);
}

/// While a burst is sent, looking for a stranger may show that a member without contact is gone.
TEST(SegmentHops, AHopMayEndWithinABurst) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  auto goes = std::make_unique<Node>(dir, record_of("host", 1));
  const uint32_t qpn = goes->qpn();
  a.turn();
  a.port->peers().refresh(true);
  const NextHop hop = a.port->next_hops()->find(mac_of(1), qpn);
  ASSERT_NE(hop.place, nullptr);
  goes.reset();
  const std::vector<std::vector<uint8_t>> burst = {roce_frame(mac_of(7), 0x1234, 90), roce_frame(mac_of(1), qpn, 90)};
  TxFrame frames[2];
  ASSERT_EQ(a.port->acquire_tx(frames, 2), 2u);
  for (int i = 0; i < 2; i++) {
    std::memcpy(frames[i].data, burst[i].data(), burst[i].size());
    frames[i].bytes = static_cast<uint32_t>(burst[i].size());
  }
  frames[1].hop = hop;
  a.port->send(frames, 2);
  EXPECT_EQ(a.port->counters().contacts, 0u);
  EXPECT_EQ(a.port->counters().tx_dropped_nobody, 2u);
}

TEST(SegmentHops, AHopOfAnotherEpochIsNotTaken) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), b(dir, record_of("host", 1)), c(dir, record_of("host", 1));
  const auto for_b = roce_frame(mac_of(1), b.qpn(), 90);
  a.turn();
  a.send(for_b);
  settle({&a, &b, &c});
  EXPECT_EQ(b.receive().size(), 1u);
  const NextHop to_b = a.port->next_hops()->find(mac_of(1), b.qpn());
  const uint32_t late = c.qpn();  // another member takes these numbers
  a.send(roce_frame(mac_of(1), late, 90));
  settle({&a, &c});
  EXPECT_EQ(c.receive().size(), 1u);
  EXPECT_NE(to_b.epoch, a.port->next_hops()->epoch());
  NextHop wrong = to_b;
  wrong.place = a.port->next_hops()->find(mac_of(1), late).place;
  ASSERT_TRUE(send_by(a, wrong, for_b));
  settle({&a, &b, &c});
  EXPECT_EQ(b.receive(), Frames{for_b});
  EXPECT_TRUE(c.receive().empty());
}

}  // namespace
}  // namespace uroce::segment
