// Frames between an ethdev and a member of its segment.
#include <poll.h>
#include <sys/socket.h>

#include <fstream>
#include <set>
#include <thread>

#include "rig.h"

namespace uroce::shmlan {
namespace {

using namespace test;
using segment::test::mac_of;
using segment::test::Node;
using segment::test::record_of;
using segment::test::roce_frame;

TEST_F(ShmlanDriver, FramesOfEveryLengthGoBothWays) {
  start();
  for (const size_t bytes : {60u, 64u, 121u, 128u, 129u, 1000u, 1518u}) {
    send(to_peer(bytes, 3));
    EXPECT_EQ(peer->receive(), Frames{to_peer(bytes, 3)});
    peer->send(to_port(bytes, 5));
    const auto mbufs = port->receive_mbufs();
    ASSERT_EQ(mbufs.size(), 1u) << bytes;
    EXPECT_EQ(mbufs[0]->port, port->id);
    EXPECT_EQ(mbufs[0]->nb_segs, 1);
    EXPECT_EQ(mbufs[0]->data_off, RTE_PKTMBUF_HEADROOM);
    EXPECT_EQ(Bytes(rte_pktmbuf_mtod(mbufs[0], uint8_t*), rte_pktmbuf_mtod(mbufs[0], uint8_t*) + mbufs[0]->pkt_len),
              to_port(bytes, 5));
    rte_pktmbuf_free(mbufs[0]);
    peer->turn();
  }
}

TEST_F(ShmlanDriver, AFrameInPiecesLeavesWhole) {
  start();
  for (const size_t piece : {1u, 13u, 64u, 500u}) {
    send(to_peer(700, 9), piece);
    EXPECT_EQ(peer->receive(), Frames{to_peer(700, 9)}) << piece;
  }
}

TEST_F(ShmlanDriver, BurstsKeepTheirOrder) {
  start();
  Frames sent, got;
  for (int round = 0; round < 20; round++) {
    std::vector<rte_mbuf*> burst;
    for (int i = 0; i < 100; i++) {
      sent.push_back(to_peer(60 + static_cast<size_t>(round), static_cast<uint8_t>(i)));
      burst.push_back(mbuf_of(sent.back()));
    }
    ASSERT_EQ(rte_eth_tx_burst(port->id, 0, burst.data(), 100), 100);
    for (int turn = 0; turn < 2; turn++) {
      for (const Bytes& frame : peer->receive()) got.push_back(frame);
    }
  }
  EXPECT_EQ(got, sent);
  sent.clear();
  got.clear();
  for (int i = 0; i < 150; i++) {
    sent.push_back(to_port(200, static_cast<uint8_t>(i)));
    peer->send(sent.back());
  }
  EXPECT_EQ(port->receive(10).size() + port->receive(0).size(), 10u) << "no more than asked for";
  Frames rest = port->receive(255);
  EXPECT_EQ(rest, Frames(sent.begin() + 10, sent.end()));
}

TEST_F(ShmlanDriver, SaysHowManyFramesWait) {
  start();
  EXPECT_EQ(rte_eth_rx_queue_count(port->id, 0), 0);
  for (int i = 0; i < 150; i++) peer->send(to_port(i % 2 == 0 ? 60 : 1000));
  EXPECT_EQ(rte_eth_rx_queue_count(port->id, 0), 150);
  EXPECT_EQ(port->receive(10).size(), 10u);
  EXPECT_EQ(rte_eth_rx_queue_count(port->id, 0), 140);
  EXPECT_EQ(port->receive(255).size(), 140u);
  for (int i = 0; i < 400; i++) peer->send(to_port(60));
  EXPECT_EQ(rte_eth_rx_queue_count(port->id, 0), 256) << "what a sender's ring holds; the rest waits with the sender";
}

TEST_F(ShmlanDriver, WhatIsNoFrameIsCountedAndNotSent) {
  start();
  send(Bytes(segment::kFrameBytes + 1));
  send(Bytes(13));
  send(Bytes(14));  // the least that is a frame; nobody has its address
  send(to_peer(segment::kFrameBytes, 1));
  EXPECT_EQ(peer->receive(), Frames{to_peer(segment::kFrameBytes, 1)});
  EXPECT_EQ(port->stats().oerrors, 2u);
  EXPECT_EQ(port->stats().opackets, 2u);
  EXPECT_EQ(port->xstat("tx_too_long"), 1u);
  EXPECT_EQ(port->xstat("tx_too_short"), 1u);
}

TEST_F(ShmlanDriver, AFrameLongerThanTheMtuIsDropped) {
  start();
  peer->send(to_port(1519));
  peer->send(to_port(1518, 1));
  EXPECT_EQ(port->receive(), Frames{to_port(1518, 1)});
  EXPECT_EQ(port->stats().ierrors, 1u);
  EXPECT_EQ(port->xstat("rx_too_long"), 1u);
  ASSERT_EQ(rte_eth_dev_set_mtu(port->id, 1600), 0);
  peer->send(to_port(1519, 2));
  EXPECT_EQ(port->receive(), Frames{to_port(1519, 2)});
}

TEST_F(ShmlanDriver, ABurstEndsHoweverManyFramesAreDropped) {
  start();
  for (int i = 0; i < 100; i++) peer->send(to_port(2000));
  peer->send(to_port(100, 1));
  EXPECT_TRUE(port->receive(64).empty());
  EXPECT_EQ(port->stats().ierrors, 64u);
  EXPECT_EQ(port->receive(64), Frames{to_port(100, 1)});
}

TEST_F(ShmlanDriver, LongFramesNeedRoom) {
  PortSetup with = setup();
  with.mtu = 4000;
  EXPECT_EQ(port->start(with), -EINVAL) << "buffers have room for 2048 bytes";
  with.rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER;
  start(with);
  peer->send(to_port(4018, 7));
  const auto mbufs = port->receive_mbufs();
  ASSERT_EQ(mbufs.size(), 1u);
  EXPECT_EQ(mbufs[0]->nb_segs, 2);
  Bytes copy(mbufs[0]->pkt_len);
  std::memcpy(copy.data(), rte_pktmbuf_read(mbufs[0], 0, mbufs[0]->pkt_len, copy.data()), copy.size());
  EXPECT_EQ(copy, to_port(4018, 7));
  rte_pktmbuf_free(mbufs[0]);
  with.mtu = segment::kFrameBytes - 18 + 1;
  ASSERT_EQ(rte_eth_dev_stop(port->id), 0);
  EXPECT_EQ(port->start(with), -EINVAL) << "more than a frame of the segment";
}

TEST_F(ShmlanDriver, StatisticsCountFramesAndBytesUntilTheyAreReset) {
  start();
  for (int i = 0; i < 3; i++) send(to_peer(100));
  for (int i = 0; i < 2; i++) peer->send(to_port(1000));
  port->receive();
  rte_eth_stats stats = port->stats();
  EXPECT_EQ(stats.opackets, 3u);
  EXPECT_EQ(stats.obytes, 300u);
  EXPECT_EQ(stats.ipackets, 2u);
  EXPECT_EQ(stats.ibytes, 2000u);
  EXPECT_EQ(port->xstat("rx_good_packets"), 2u);
  EXPECT_EQ(port->xstat("tx_dropped_nobody"), 0u);
  send(roce_frame(mac_of(1), qpn ^ 0x800000, 100));
  EXPECT_EQ(port->xstat("tx_dropped_nobody"), 1u) << "the segment's counters are there, too";
  ASSERT_EQ(rte_eth_xstats_reset(port->id), 0);
  stats = port->stats();
  EXPECT_EQ(stats.opackets + stats.ipackets + stats.obytes + stats.ibytes, 0u);
  EXPECT_EQ(port->xstat("tx_dropped_nobody"), 0u);
}

TEST_F(ShmlanDriver, AStoppedPortReceivesNothing) {
  start();
  for (int i = 0; i < 3; i++) {
    ASSERT_EQ(rte_eth_dev_stop(port->id), 0);
    for (int frame = 0; frame < 100; frame++) peer->send(to_port(300, 1));
    ASSERT_EQ(rte_eth_dev_start(port->id), 0);
    EXPECT_TRUE(port->receive().empty()) << "it was sent to a port that was stopped";
    peer->turn();
    peer->send(to_port(300, 2));
    EXPECT_EQ(port->receive(), Frames{to_port(300, 2)});
  }
}

TEST_F(ShmlanDriver, TellsWhatItIs) {
  rte_eth_dev_info info{};
  ASSERT_EQ(rte_eth_dev_info_get(port->id, &info), 0);
  EXPECT_EQ(info.max_rx_queues, 1);
  EXPECT_EQ(info.max_tx_queues, 1);
  EXPECT_EQ(info.max_rx_pktlen, 4352u);
  EXPECT_EQ(info.max_mtu, 4334);
  start();
  rte_eth_link link{};
  ASSERT_EQ(rte_eth_link_get_nowait(port->id, &link), 0);
  EXPECT_EQ(link.link_status, RTE_ETH_LINK_UP);
  EXPECT_EQ(rte_eth_promiscuous_enable(port->id), -ENOTSUP) << "what is for others does not come here";
  EXPECT_EQ(rte_eth_promiscuous_get(port->id), 0);
  EXPECT_EQ(rte_eth_allmulticast_get(port->id), 1);
  EXPECT_EQ(rte_eth_allmulticast_disable(port->id), -ENOTSUP);
}

class ShmlanInterrupt : public ShmlanDriver {
 protected:
  void SetUp() override {
    ShmlanDriver::SetUp();
    PortSetup with = setup();
    with.interrupts = true;
    start(with);
  }
  bool ready() const {
    pollfd entry{rte_eth_dev_rx_intr_ctl_q_get_fd(port->id, 0), POLLIN, 0};
    EXPECT_GE(entry.fd, 0);
    return poll(&entry, 1, 0) == 1;
  }
  /// Leaves room for few letters in the port's socket, which is among the descriptors of its interrupt.
  void shrink_its_socket() const {
    const int epoll_fd = rte_eth_dev_rx_intr_ctl_q_get_fd(port->id, 0);
    std::ifstream lines("/proc/self/fdinfo/" + std::to_string(epoll_fd));
    int sockets = 0;
    for (std::string word; lines >> word;) {
      if (word != "tfd:") continue;
      int fd = -1;
      lines >> fd;
      const int least = 1;
      sockets += setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof least) == 0 ? 1 : 0;
    }
    EXPECT_EQ(sockets, 1);
  }
};

TEST_F(ShmlanInterrupt, ASleeperIsWoken) {
  ASSERT_EQ(rte_eth_dev_rx_intr_enable(port->id, 0), 0);
  EXPECT_FALSE(ready());
  peer->send(to_port(100, 4));
  peer->turn();
  EXPECT_TRUE(ready());
  ASSERT_EQ(rte_eth_dev_rx_intr_disable(port->id, 0), 0);
  EXPECT_EQ(port->receive(), Frames{to_port(100, 4)});
  ASSERT_EQ(rte_eth_dev_rx_intr_enable(port->id, 0), 0);
  EXPECT_FALSE(ready()) << "it was read";
}

TEST_F(ShmlanInterrupt, NobodySleepsWhenSomethingIsThere) {
  peer->send(to_port(100, 5));
  ASSERT_EQ(rte_eth_dev_rx_intr_enable(port->id, 0), 0);
  EXPECT_TRUE(ready());
  ASSERT_EQ(rte_eth_dev_rx_intr_disable(port->id, 0), 0);
  EXPECT_FALSE(ready());
  EXPECT_EQ(port->receive().size(), 1u);
}

/// A sender is not woken when there is room again, so it must not sleep.
TEST_F(ShmlanInterrupt, NobodySleepsWhileFramesOfHisWaitForRoom) {
  for (uint32_t i = 0; i < segment::kSlots + 2; i++) send(to_peer(100));
  for (int again = 0; again < 2; again++) {
    ASSERT_EQ(rte_eth_dev_rx_intr_enable(port->id, 0), 0);
    EXPECT_TRUE(ready()) << "two wait";
    ASSERT_EQ(rte_eth_dev_rx_intr_disable(port->id, 0), 0);
  }
  size_t got = 0;
  for (int i = 0; i < 8; i++) {
    got += peer->receive().size();
    settle();
  }
  EXPECT_EQ(got, segment::kSlots + 2);
  ASSERT_EQ(rte_eth_dev_rx_intr_enable(port->id, 0), 0);
  EXPECT_FALSE(ready());
}

/// Its socket is full of letters that others have not read. They sleep, and if it slept, too, its frames would lie
/// unread.
TEST_F(ShmlanInterrupt, NobodySleepsWhileSomebodyIsToBeWoken) {
  std::vector<std::unique_ptr<Node>> sleepers(16);
  for (auto& node : sleepers) {
    node = std::make_unique<Node>(segment_dir(), record_of("host", 1));
    const Bytes frame = roce_frame(mac_of(1), node->qpn(), 100);
    size_t met = 0;
    for (int i = 0; i < 1000 && met == 0; i++) {  // at first it may not know the newcomer
      send(frame);
      settle();
      node->turn();
      met = node->receive().size();
    }
    ASSERT_EQ(met, 1u);
    for (int i = 0; i < 2; i++) {
      settle();
      node->turn();
    }
    ASSERT_TRUE(node->port->sleep().arm());
    ASSERT_FALSE(node->wake_fd_ready()) << "a letter";
  }
  shrink_its_socket();
  for (auto& node : sleepers) send(roce_frame(mac_of(1), node->qpn(), 100));
  ASSERT_LT(port->xstat("wakes_sent"), sleepers.size());
  size_t got = 0;
  for (size_t round = 0; got < sleepers.size() && round < sleepers.size(); round++) {
    ASSERT_EQ(rte_eth_dev_rx_intr_enable(port->id, 0), 0);
    EXPECT_TRUE(ready() || port->xstat("wakes_sent") == sleepers.size()) << got;
    ASSERT_EQ(rte_eth_dev_rx_intr_disable(port->id, 0), 0);
    for (auto& node : sleepers) {
      if (!node->wake_fd_ready()) continue;
      got += node->receive().size();
      node->turn();
    }
    settle();
  }
  EXPECT_EQ(got, sleepers.size());
  ASSERT_EQ(rte_eth_dev_rx_intr_enable(port->id, 0), 0);
  EXPECT_FALSE(ready());
}

/// One thread sends, another receives and answers, a third reads statistics: two lcores and a control thread.
TEST_F(ShmlanDriver, ManyThreadsUseOnePort) {
  constexpr uint32_t kFrames = 20000;
  TestPort other("net_shmlan1", dir.path(), "mac=02:75:00:00:00:03");
  ASSERT_EQ(other.code, 0);
  start();
  ASSERT_EQ(other.start(setup()), 0);
  std::atomic<uint32_t> echoed{0}, returned{0};
  std::atomic<bool> stop{false};
  std::thread echo([&] {
    while (!stop) {
      std::vector<rte_mbuf*> mbufs = other.receive_mbufs(32);
      for (rte_mbuf* mbuf : mbufs) std::memcpy(rte_pktmbuf_mtod(mbuf, uint8_t*), mac_of(2).bytes.data(), 6);
      size_t sent = 0;
      while (sent < mbufs.size() && !stop) {
        sent += rte_eth_tx_burst(other.id, 0, &mbufs[sent], static_cast<uint16_t>(mbufs.size() - sent));
      }
      for (size_t i = sent; i < mbufs.size(); i++) rte_pktmbuf_free(mbufs[i]);
      echoed += static_cast<uint32_t>(sent);
      if (mbufs.empty()) std::this_thread::yield();
    }
  });
  std::thread receiver([&] {
    uint32_t next = 0;
    while (!stop) {
      for (const Bytes& frame : port->receive(32)) {
        EXPECT_EQ(load_be32(&frame[60]), next++);
        returned++;
      }
      std::this_thread::yield();
    }
  });
  std::thread watcher([&] {
    while (!stop) {
      EXPECT_LE(port->stats().ipackets, kFrames);
      std::this_thread::yield();
    }
  });
  for (uint32_t i = 0; i < kFrames;) {
    while (i - returned > 100) std::this_thread::yield();
    Bytes frame = roce_frame(mac_of(3), 0x77, 100);
    store_be32(&frame[60], i);
    rte_mbuf* const mbuf = mbuf_of(frame);
    if (port->send(mbuf) == 1) {
      i++;
    } else {
      rte_pktmbuf_free(mbuf);
    }
  }
  for (int wait = 0; wait < 20000 && returned < kFrames; wait++) usleep(1000);
  stop = true;
  for (std::thread* thread : {&echo, &receiver, &watcher}) thread->join();
  EXPECT_EQ(returned, kFrames);
  EXPECT_EQ(port->stats().opackets, kFrames);
}

}  // namespace
}  // namespace uroce::shmlan
