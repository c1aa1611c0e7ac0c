// When memory runs out: that of the segment, and the application's mbufs.
#include "rig.h"

namespace uroce::shmlan {
namespace {

using namespace test;
using segment::test::mac_of;
using segment::test::Node;
using segment::test::record_of;
using segment::test::roce_frame;

/// Peers that do not read, so many that their frames fill the port's memory: what finds no room stays with the
/// application, also as a part of a burst, and nothing is lost of what one peer's share has room for.
TEST_F(ShmlanDriver, WhatFindsNoRoomIsNotTaken) {
  start();
  std::vector<std::unique_ptr<Node>> peers(4);
  std::vector<Bytes> frames;
  for (auto& node : peers) {
    node = std::make_unique<Node>(segment_dir(), record_of("host", 1));
    frames.push_back(roce_frame(mac_of(1), node->qpn(), 1000));
    size_t met = 0;
    for (int i = 0; i < 1000 && met == 0; i++) {  // at first it may not know the newcomer
      send(frames.back());
      settle();
      node->turn();
      met = node->receive().size();
    }
    ASSERT_EQ(met, 1u);
  }
  ASSERT_EQ(rte_eth_stats_reset(port->id), 0);
  ASSERT_EQ(rte_eth_xstats_reset(port->id), 0);
  uint32_t taken = 0;
  uint16_t sent = 32;
  for (uint32_t round = 0; sent == 32 && round < segment::kPoolFrames; round++) {
    std::vector<rte_mbuf*> burst(32);
    for (rte_mbuf*& mbuf : burst) mbuf = mbuf_of(frames[round % frames.size()]);
    sent = rte_eth_tx_burst(port->id, 0, burst.data(), 32);
    taken += sent;
    for (size_t i = sent; i < burst.size(); i++) rte_pktmbuf_free(burst[i]);
  }
  EXPECT_LT(sent, 32);
  EXPECT_EQ(port->stats().opackets, taken);
  EXPECT_LE(taken - port->xstat("tx_dropped_full"), segment::kPoolFrames);
  uint64_t got = 0;
  for (int i = 0; i < 40; i++) {
    for (auto& node : peers) {
      got += node->receive().size();
      node->turn();
    }
    settle();
  }
  EXPECT_EQ(got, taken - port->xstat("tx_dropped_full"));
  send(to_peer(100, 8));
  EXPECT_EQ(peer->receive(), Frames{to_peer(100, 8)});
}

TEST_F(ShmlanDriver, WithoutMbufsFramesWait) {
  rte_mempool* const few = rte_pktmbuf_pool_create("few", 3, 0, 0, kRoom + RTE_PKTMBUF_HEADROOM, 0);
  PortSetup with = setup();
  with.pool = few;
  start(with);
  for (uint8_t i = 0; i < 5; i++) peer->send(to_port(300, i));
  const auto first = port->receive_mbufs();
  EXPECT_EQ(first.size(), 3u);
  EXPECT_TRUE(port->receive_mbufs().empty());
  EXPECT_GT(port->stats().rx_nombuf, 0u);
  for (rte_mbuf* mbuf : first) rte_pktmbuf_free(mbuf);
  EXPECT_EQ(port->receive(), (Frames{to_port(300, 3), to_port(300, 4)}));
  port->close();
  EXPECT_EQ(rte_mempool_in_use_count(few), 0u);
  rte_mempool_free(few);
}

/// A lack of mbufs is counted when a frame waits for one: not when the burst is full, nor when nothing has come.
TEST_F(ShmlanDriver, OnlyFramesThatWaitLackMbufs) {
  rte_mempool* const few = rte_pktmbuf_pool_create("few", 3, 0, 0, kRoom + RTE_PKTMBUF_HEADROOM, 0);
  PortSetup with = setup();
  with.pool = few;
  start(with);
  for (uint8_t i = 0; i < 4; i++) peer->send(to_port(300, i));
  const auto all = port->receive_mbufs(3);
  EXPECT_EQ(all.size(), 3u);
  EXPECT_EQ(port->stats().rx_nombuf, 0u) << "no more was asked for";
  EXPECT_TRUE(port->receive_mbufs().empty());
  EXPECT_EQ(port->stats().rx_nombuf, 1u) << "one waits";
  EXPECT_EQ(port->xstat("rx_no_mbufs"), 1u);
  rte_pktmbuf_free(all[0]);
  const auto last = port->receive_mbufs();
  EXPECT_EQ(last.size(), 1u);
  EXPECT_TRUE(port->receive_mbufs().empty());
  EXPECT_EQ(port->stats().rx_nombuf, 1u) << "nothing waits";
  for (rte_mbuf* mbuf : {all[1], all[2], last.at(0)}) rte_pktmbuf_free(mbuf);
  port->close();
  EXPECT_EQ(rte_mempool_in_use_count(few), 0u);
  rte_mempool_free(few);
}

/// When a frame does not fit, all its mbufs are free for the next one, and none of its bytes is in that.
TEST_F(ShmlanDriver, WhenThePoolEndsInTheMiddleOfAFrameItsMbufsComeBack) {
  rte_mempool* const few = rte_pktmbuf_pool_create("few", 3, 0, 0, kRoom + RTE_PKTMBUF_HEADROOM, 0);
  PortSetup with = setup();
  with.pool = few;
  with.mtu = 4300;
  with.rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER;
  start(with);
  for (uint8_t round = 1; round <= 3; round++) {
    rte_mbuf* const kept = rte_pktmbuf_alloc(few);
    peer->send(to_port(4300, round));
    EXPECT_TRUE(port->receive_mbufs().empty());
    EXPECT_EQ(port->xstat("rx_no_mbufs"), round);
    EXPECT_EQ(rte_mempool_in_use_count(few), 2u) << "that one, and one that is ready for the next frame";
    rte_pktmbuf_free(kept);
    peer->turn();
    for (const size_t bytes : {100u, 4300u}) {
      peer->send(to_port(bytes, 100));
      const auto mbufs = port->receive_mbufs();
      ASSERT_EQ(mbufs.size(), 1u);
      EXPECT_EQ(rte_mbuf_check(mbufs[0], 1, nullptr), 0);
      EXPECT_EQ(mbufs[0]->nb_segs, bytes == 100 ? 1 : 3);
      rte_pktmbuf_free(mbufs[0]);
      peer->turn();
    }
  }
  port->close();
  EXPECT_EQ(rte_mempool_in_use_count(few), 0u);
  rte_mempool_free(few);
}

}  // namespace
}  // namespace uroce::shmlan
