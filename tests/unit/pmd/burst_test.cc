// Packets in and out, starts and stops, and the rings when they are full or empty.
#include "tests/unit/pmd/driver_rig.h"

namespace mqnic::test {
namespace {

class Burst : public DriverRig {};

TEST_F(Burst, FramesComeBackAsTheyWereSent) {
  attach_and_start();
  for (unsigned i = 0; i < 1000; ++i) {
    const Bytes frame = make_frame(60 + i, i);
    ASSERT_EQ(send(frame), 1u);
    const std::vector<Bytes> received = receive(1);
    ASSERT_EQ(received.size(), 1u) << i;
    ASSERT_EQ(received[0], frame) << i;
  }
  EXPECT_EQ(stats().ipackets, 1000u);
  EXPECT_EQ(stats().opackets, 1000u);
  EXPECT_EQ(stats().ibytes, stats().obytes);
  EXPECT_EQ(stats().ierrors + stats().oerrors, 0u);
}

TEST_F(Burst, NoRegisterIsReadAndOneDoorbellIsEnough) {
  attach_and_start();
  const uint64_t reads = bus->reads, writes = bus->writes;
  for (unsigned i = 0; i < 100; ++i) {
    rte_mbuf* burst[32];
    for (rte_mbuf*& m : burst) m = make_mbuf(make_frame(100));
    ASSERT_EQ(rte_eth_tx_burst(port, 0, burst, 32), 32u);
    ASSERT_EQ(receive(32).size(), 32u);
  }
  EXPECT_EQ(bus->reads, reads);
  EXPECT_EQ(bus->writes, writes);
}

TEST_F(Burst, RingWrapsAroundAllPointers) {
  attach_and_start({.descriptors = 64});
  unsigned received = 0;
  for (unsigned i = 0; i < 70000 / 32; ++i) {
    rte_mbuf* burst[32];
    for (rte_mbuf*& m : burst) m = make_mbuf(make_frame(64, i));
    ASSERT_EQ(rte_eth_tx_burst(port, 0, burst, 32), 32u);
    for (const Bytes& frame : receive(32)) {
      ASSERT_EQ(frame, make_frame(64, i));
      ++received;
    }
  }
  EXPECT_EQ(received, 70000u / 32 * 32);
  EXPECT_EQ(bus->card().report().completions_lost_cq_full, 0u);
}

TEST_F(Burst, EveryDescriptorOfARingIsUsed) {
  attach_and_start({.descriptors = 64});
  bus->frozen = true;
  unsigned sent = 0;
  while (sent < 100 && send(make_frame(64)) == 1) ++sent;
  EXPECT_EQ(sent, 64u);
  EXPECT_EQ(xstat("tx_ring_full"), 1u);
  bus->frozen = false;
  EXPECT_EQ(receive(64).size(), 64u);
}

TEST_F(Burst, FullCompletionQueueLosesNothing) {
  attach_and_start({.descriptors = 64});
  // The port is not polled while three rings of frames arrive: the card has no room for most of them, but no frame that
  // it took is lost.
  bus->wire().loop = false;
  for (unsigned i = 0; i < 192; ++i) bus->wire().to_card.push_back(make_frame(64, i));
  for (int i = 0; i < 20; ++i) bus->run();
  EXPECT_EQ(bus->card().report().rx_dropped_no_descriptor, 128u);
  const std::vector<Bytes> received = receive(192);
  ASSERT_EQ(received.size(), 64u);
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(received[i], make_frame(64, i));
  EXPECT_EQ(bus->card().report().completions_lost_cq_full, 0u);
  EXPECT_EQ(xstat("rx_lost_completions"), 0u);
  bus->wire().to_card.push_back(make_frame(64, 200));
  EXPECT_EQ(receive(1).size(), 1u);
}

TEST_F(Burst, EmptyRxRingFillsAgain) {
  rte_mempool* small = rte_pktmbuf_pool_create("small", 96, 0, 0, kRoom + RTE_PKTMBUF_HEADROOM, 0);
  attach_and_start({.descriptors = 64, .rx_pool = small});
  // The application holds all buffers.
  std::vector<rte_mbuf*> kept;
  bus->wire().loop = false;
  for (unsigned i = 0; i < 200; ++i) {
    bus->wire().to_card.push_back(make_frame(64, i));
    rte_mbuf* m = receive_mbuf();
    if (m != nullptr) kept.push_back(m);
  }
  EXPECT_EQ(kept.size(), 96u);
  EXPECT_GT(xstat("rx_no_mbufs"), 0u);
  EXPECT_GT(stats().rx_nombuf, 0u);
  EXPECT_GT(bus->card().report().rx_dropped_no_descriptor, 0u);
  for (rte_mbuf* m : kept) rte_pktmbuf_free(m);
  EXPECT_EQ(receive(1).size(), 0u);  // only refills the ring
  for (unsigned i = 0; i < 96; ++i) {
    bus->wire().to_card.push_back(make_frame(64, i));
    ASSERT_EQ(receive(1).size(), 1u) << i;
  }
  detach();
  EXPECT_EQ(rte_mempool_in_use_count(small), 0u);
  rte_mempool_free(small);
}

TEST_F(Burst, StopUnderTrafficAndStartAgain) {
  attach_and_start();
  for (unsigned round = 0; round < 50; ++round) {
    for (unsigned i = 0; i < 40 + round; ++i) ASSERT_EQ(send(make_frame(64 + i, round)), 1u);
    bus->wire().to_card.push_back(make_frame(99, round));
    ASSERT_EQ(rte_eth_dev_stop(port), 0);
    EXPECT_EQ(rte_mempool_in_use_count(pool), 0u);
    EXPECT_EQ(rte_mempool_in_use_count(tx_pool), 0u);
    bus->wire().to_card.clear();
    ASSERT_EQ(rte_eth_dev_start(port), 0);
    ASSERT_EQ(send(make_frame(77, round)), 1u);
    // While its receiver was off, the port kept at most eight small frames.
    const std::vector<Bytes> received = receive(10);
    ASSERT_GE(received.size(), 1u);
    EXPECT_LE(received.size(), 9u);
    EXPECT_EQ(received.back(), make_frame(77, round));
  }
  EXPECT_EQ(bus->card().report().dma_faults, 0u);
  EXPECT_EQ(bus->card().report().doorbells_lost, 0u);
}

TEST_F(Burst, StopWhileTheCardDoesNotMove) {
  attach_and_start();
  bus->frozen = true;
  for (unsigned i = 0; i < 40; ++i) ASSERT_EQ(send(make_frame(64)), 1u);
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  EXPECT_EQ(rte_mempool_in_use_count(tx_pool), 0u);
  EXPECT_EQ(rte_mempool_in_use_count(pool), 0u);
}

TEST_F(Burst, QueuesStopAndStartOnTheirOwn) {
  attach_and_start({.rx_queues = 2, .tx_queues = 2});
  for (unsigned round = 0; round < 20; ++round) {
    ASSERT_EQ(rte_eth_dev_tx_queue_stop(port, 0), 0);
    EXPECT_EQ(send(make_frame(64)), 0u);
    ASSERT_EQ(send(make_frame(65), 1), 1u);
    EXPECT_EQ(receive(1).size(), 1u);
    ASSERT_EQ(rte_eth_dev_tx_queue_start(port, 0), 0);
    ASSERT_EQ(rte_eth_dev_rx_queue_stop(port, 0), 0);
    ASSERT_EQ(send(make_frame(66)), 1u);  // without a receiver
    EXPECT_EQ(receive(1).size(), 0u);
    ASSERT_EQ(rte_eth_dev_rx_queue_start(port, 0), 0);
    ASSERT_EQ(send(make_frame(67)), 1u);
    EXPECT_EQ(receive(1).size(), 1u);
  }
  EXPECT_GT(bus->card().report().rx_dropped_no_queue, 0u);
}

TEST_F(Burst, DeferredQueuesWait) {
  ASSERT_EQ(attach(), 0);
  ASSERT_EQ(configure(), 0);
  rte_eth_dev_info info{};
  ASSERT_EQ(rte_eth_dev_info_get(port, &info), 0);
  rte_eth_rxconf rx = info.default_rxconf;
  rte_eth_txconf tx = info.default_txconf;
  rx.rx_deferred_start = tx.tx_deferred_start = 1;
  ASSERT_EQ(rte_eth_rx_queue_setup(port, 0, 64, 0, &rx, pool), 0);
  ASSERT_EQ(rte_eth_tx_queue_setup(port, 0, 64, 0, &tx), 0);
  ASSERT_EQ(rte_eth_dev_start(port), 0);
  EXPECT_EQ(rte_mempool_in_use_count(pool), 0u);
  EXPECT_EQ(send(make_frame(64)), 0u);
  ASSERT_EQ(rte_eth_dev_rx_queue_start(port, 0), 0);
  ASSERT_EQ(rte_eth_dev_tx_queue_start(port, 0), 0);
  ASSERT_EQ(send(make_frame(64)), 1u);
  EXPECT_EQ(receive(1).size(), 1u);
}

TEST_F(Burst, ConfigureAgainWithOtherQueues) {
  attach_and_start({.rx_queues = 4, .tx_queues = 4});
  for (const uint16_t queues : std::initializer_list<uint16_t>{1, 3, 2, 8}) {
    ASSERT_EQ(send(make_frame(64)), 1u);
    ASSERT_EQ(rte_eth_dev_stop(port), 0);
    ASSERT_EQ(start({.rx_queues = queues, .tx_queues = queues, .descriptors = 64}), 0);
    ASSERT_EQ(send(make_frame(64), static_cast<uint16_t>(queues - 1)), 1u);
    EXPECT_GE(receive(2).size(), 1u);
  }
  EXPECT_GE(stats().opackets, 5u);  // those of removed queues still count
}

TEST_F(Burst, QueuesAreSetUpAgainWhileThePortRuns) {
  attach_and_start({.rx_queues = 2, .tx_queues = 2});
  rte_eth_dev_info info{};
  ASSERT_EQ(rte_eth_dev_info_get(port, &info), 0);
  rte_eth_rxconf rx = info.default_rxconf;
  rte_eth_txconf tx = info.default_txconf;
  rx.offloads = RTE_ETH_RX_OFFLOAD_SCATTER;
  tx.offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  rx.rx_deferred_start = tx.tx_deferred_start = 1;
  rte_mempool* small = rte_pktmbuf_pool_create("small", 511, 0, 0, 512 + RTE_PKTMBUF_HEADROOM, 0);
  ASSERT_EQ(rte_eth_dev_rx_queue_stop(port, 0), 0);
  ASSERT_EQ(rte_eth_dev_tx_queue_stop(port, 0), 0);
  ASSERT_EQ(rte_eth_rx_queue_setup(port, 0, 64, 0, &rx, small), 0);
  ASSERT_EQ(rte_eth_tx_queue_setup(port, 0, 64, 0, &tx), 0);
  ASSERT_EQ(rte_eth_dev_rx_queue_start(port, 0), 0);
  ASSERT_EQ(rte_eth_dev_tx_queue_start(port, 0), 0);
  for (unsigned i = 0; i < 200; ++i) {
    const Bytes frame = make_frame(1400, i);
    ASSERT_EQ(send(make_chain(frame, {400, 400, 600}), 0), 1u);
    ASSERT_EQ(send(frame, 1), 1u);
    for (const Bytes& received : receive(2)) ASSERT_EQ(received, frame);
  }
  EXPECT_EQ(stats().ipackets, 400u);
  detach();
  EXPECT_EQ(rte_mempool_in_use_count(small), 0u);
  rte_mempool_free(small);
}

/// One queue is set up again with more descriptors: it is served with all of them at once, whether it receives or
/// sends.
TEST_F(Burst, AQueueThatIsSetUpAgainAloneIsServedAsItIsNow) {
  rte_mempool* small = rte_pktmbuf_pool_create("small", 511, 0, 0, 512 + RTE_PKTMBUF_HEADROOM, 0);
  for (const bool receiving : {true, false}) {
    attach_and_start();
    rte_eth_dev_info info{};
    ASSERT_EQ(rte_eth_dev_info_get(port, &info), 0);
    rte_eth_rxconf rx = info.default_rxconf;
    rte_eth_txconf tx = info.default_txconf;
    rx.offloads = RTE_ETH_RX_OFFLOAD_SCATTER;
    tx.offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    rx.rx_deferred_start = tx.tx_deferred_start = 1;
    if (receiving) {
      ASSERT_EQ(rte_eth_dev_rx_queue_stop(port, 0), 0);
      ASSERT_EQ(rte_eth_rx_queue_setup(port, 0, 64, 0, &rx, small), 0);
      ASSERT_EQ(rte_eth_dev_rx_queue_start(port, 0), 0);
    } else {
      ASSERT_EQ(rte_eth_dev_tx_queue_stop(port, 0), 0);
      ASSERT_EQ(rte_eth_tx_queue_setup(port, 0, 64, 0, &tx), 0);
      ASSERT_EQ(rte_eth_dev_tx_queue_start(port, 0), 0);
    }
    for (unsigned i = 0; i < 100; ++i) {
      const Bytes frame = make_frame(1400, i);
      ASSERT_EQ(receiving ? send(frame) : send(make_chain(frame, {400, 400, 600})), 1u);
      ASSERT_EQ(receive(1), std::vector<Bytes>{frame}) << receiving << i;
    }
    detach();
    EXPECT_EQ(rte_mempool_in_use_count(small), 0u);
  }
  rte_mempool_free(small);
}

TEST_F(Burst, PortWithoutItsQueuesDoesNotStart) {
  ASSERT_EQ(attach(), 0);
  rte_eth_conf conf{};
  ASSERT_EQ(rte_eth_dev_configure(port, 1, 1, &conf), 0);
  EXPECT_EQ(rte_eth_dev_start(port), -EINVAL);
}

TEST_F(Burst, SentMbufsAreFreedOnDemand) {
  attach_and_start();
  for (unsigned i = 0; i < 5; ++i) ASSERT_EQ(send(make_frame(64)), 1u);
  EXPECT_EQ(rte_mempool_in_use_count(tx_pool), 5u);
  EXPECT_EQ(rte_eth_tx_done_cleanup(port, 0, 0), 5);
  EXPECT_EQ(rte_mempool_in_use_count(tx_pool), 0u);
  EXPECT_EQ(receive(5).size(), 5u);
}

TEST_F(Burst, FastFree) {
  attach_and_start({.tx_offloads = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE});
  for (unsigned i = 0; i < 500; ++i) {
    ASSERT_EQ(send(make_frame(64, i)), 1u);
    ASSERT_EQ(receive(1).size(), 1u);
  }
}

TEST_F(Burst, MbufsWithOtherOwnersSurvive) {
  attach_and_start();
  rte_mbuf* m = make_mbuf(make_frame(200));
  rte_mbuf_refcnt_update(m, 1);
  ASSERT_EQ(send(m), 1u);
  ASSERT_EQ(receive(1).size(), 1u);
  EXPECT_EQ(rte_eth_tx_done_cleanup(port, 0, 0), 1);
  EXPECT_EQ(rte_mbuf_refcnt_read(m), 1u);
  EXPECT_EQ(bytes_of(m), make_frame(200));
  rte_pktmbuf_free(m);
}

TEST_F(Burst, DescriptorStatus) {
  attach_and_start({.descriptors = 64});
  EXPECT_EQ(rte_eth_rx_descriptor_status(port, 0, 0), RTE_ETH_RX_DESC_AVAIL);
  EXPECT_EQ(rte_eth_tx_descriptor_status(port, 0, 63), RTE_ETH_TX_DESC_DONE);
  ASSERT_EQ(send(make_frame(64)), 1u);
  bus->run();
  EXPECT_EQ(rte_eth_rx_descriptor_status(port, 0, 0), RTE_ETH_RX_DESC_DONE);
  EXPECT_EQ(rte_eth_rx_descriptor_status(port, 0, 1), RTE_ETH_RX_DESC_AVAIL);
  EXPECT_EQ(rte_eth_rx_queue_count(port, 0), 1);
  EXPECT_EQ(receive(1).size(), 1u);
  EXPECT_EQ(rte_eth_rx_queue_count(port, 0), 0);
  bus->frozen = true;
  ASSERT_EQ(send(make_frame(64)), 1u);
  EXPECT_EQ(rte_eth_tx_descriptor_status(port, 0, 63), RTE_ETH_TX_DESC_FULL);
  bus->frozen = false;
}

}  // namespace
}  // namespace mqnic::test
