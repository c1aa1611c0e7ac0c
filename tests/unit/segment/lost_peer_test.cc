// A member that is gone is nowhere any more: not among those that are woken, nor among those for which frames wait.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <vector>

#include "node.h"

namespace uroce::segment {
namespace {

using namespace test;

/// More than three peers sleep, some of which could not be woken, and none reads: frames for them wait, too.
TEST(LostPeer, IsNeitherWokenNorServedAgain) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  auto sleepers = sleepers_of(a, dir);
  for (auto& node : sleepers) {
    for (uint32_t i = 0; i < kSlots + 3; i++) ASSERT_TRUE(a.send(roce_frame(mac_of(1), node->qpn(), 60)));
  }
  EXPECT_TRUE(a.port->tx_pending());
  EXPECT_FALSE(a.port->sleep().arm(true)) << "somebody could not be woken";
  // Those that were woken live and read nothing, so that our socket stays full of letters until the others are gone.
  const size_t gone = std::erase_if(sleepers, [](const auto& node) { return !node->wake_fd_ready(); });
  ASSERT_GT(gone, 1u);
  ASSERT_GT(sleepers.size(), 1u);
  for (int i = 0; i < 40; i++) a.turn(milliseconds(250));
  EXPECT_EQ(a.port->peers().in_contact().size(), sleepers.size());
  EXPECT_EQ(a.port->counters().peers_lost, gone);
  EXPECT_TRUE(a.port->sleep().arm(true)) << "nobody is left to be woken";
  a.port->sleep().disarm();
  for (auto& node : sleepers) {
    while (!node->receive().empty()) node->turn();
  }
  a.turn();
  EXPECT_FALSE(a.port->tx_pending());
  // A newcomer is served from the beginning.
  Node late(dir, record_of("host", 1));
  const auto frame = roce_frame(mac_of(1), late.qpn(), 90);
  a.turn();
  ASSERT_TRUE(a.send(frame));
  settle({&a, &late});
  EXPECT_EQ(late.receive(), Frames{frame});
}

TEST(StuckPeer, WhatIsDroppedForItIsCountedAsThat) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), stopped(dir, record_of("host", 1)), reads(dir, record_of("host", 1));
  const auto frame = roce_frame(mac_of(1), stopped.qpn(), 100);
  const auto other = roce_frame(mac_of(1), reads.qpn(), 100);
  for (uint64_t life = 1; life <= 2; life++) {
    a.turn();
    for (uint32_t i = 0; i < kSlots + 5; i++) ASSERT_TRUE(a.send(frame));
    for (int i = 0; i < 12; i++) a.turn(milliseconds(130));
    EXPECT_EQ(a.port->counters().tx_dropped_stuck, life * 5 + (life - 1) * 7) << "what waited";
    for (int i = 0; i < 7; i++) ASSERT_TRUE(a.send(frame));
    ASSERT_TRUE(a.send(other));
    settle({&a, &reads});
    EXPECT_EQ(reads.receive().size(), 1u);
    EXPECT_EQ(a.port->counters().tx_dropped_stuck, life * 12);
    EXPECT_EQ(a.port->counters().tx_dropped_full, 0u);
    settle({&stopped, &a});
    while (!stopped.receive().empty()) stopped.turn();
    for (int i = 0; i < 4; i++) a.turn(milliseconds(130));
  }
}

/// Peers that appear while no letter can be sent, however long that is, are met: one, two and three of them.
TEST(LatePeer, IsMetWhenThereIsRoomForLettersAgain) {
  for (const size_t count : {1u, 2u, 3u}) {
    const TempDir dir;
    Node a(dir, record_of("host", 1));
    auto sleepers = sleepers_of(a, dir);
    std::vector<std::unique_ptr<Node>> late(count);
    for (auto& node : sleepers) a.send(roce_frame(mac_of(1), node->qpn(), 60));
    ASSERT_FALSE(a.port->sleep().arm(true)) << "the socket is not full";
    for (auto& node : late) {
      node = std::make_unique<Node>(dir, record_of("host", 1));
      node->qpn();
    }
    a.turn();
    for (auto& node : late) ASSERT_TRUE(a.send(roce_frame(mac_of(1), node->qpn(), 90)));
    for (int i = 0; i < 200; i++) a.turn(milliseconds(50));
    for (auto& node : late) {
      node->turn();
      EXPECT_TRUE(node->receive().empty());
    }
    for (size_t round = 0; round < 2 * sleepers.size(); round++) {
      for (auto& node : sleepers) {
        node->receive();
        node->turn();
      }
      a.turn();
    }
    for (auto& node : late) {
      settle({&a, node.get()});
      EXPECT_EQ(node->receive().size(), 1u) << count;
    }
  }
}

}  // namespace
}  // namespace uroce::segment
