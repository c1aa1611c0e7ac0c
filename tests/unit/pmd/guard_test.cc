// What this card does to careless hosts, and what the driver does about it.
#include <rte_interrupts.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/unit/pmd/driver_rig.h"

namespace mqnic::test {
namespace {

class Guard : public DriverRig {
 protected:
  /// A frame still reaches the other end.
  void expect_alive() {
    ASSERT_EQ(send(make_frame(300, 9)), 1u);
    const std::vector<Bytes> received = receive(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0], make_frame(300, 9));
  }
};

TEST_F(Guard, ZeroLengthPacketsAreNotSent) {
  attach_and_start();
  EXPECT_EQ(send(Bytes{}), 1u);  // counted as sent, as ethdev expects
  expect_alive();
  EXPECT_EQ(bus->card().report().tx_wedged, 0u);
  EXPECT_EQ(xstat("tx_zero_length"), 1u);
  EXPECT_EQ(stats().oerrors, 1u);
  EXPECT_EQ(stats().opackets, 1u);
}

TEST_F(Guard, ZeroLengthChainsAreNotSent) {
  attach_and_start({.tx_offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS});
  EXPECT_EQ(send(make_chain(Bytes{}, {0, 0, 0})), 1u);
  expect_alive();
  EXPECT_EQ(bus->card().report().tx_wedged, 0u);
  EXPECT_EQ(xstat("tx_zero_length"), 1u);
}

TEST_F(Guard, EmptySegmentsAreLeftOut) {
  attach_and_start({.tx_offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS});
  const Bytes frame = make_frame(200, 4);
  EXPECT_EQ(send(make_chain(frame, {0, 100, 0, 100, 0})), 1u);
  const std::vector<Bytes> received = receive(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0], frame);
}

TEST_F(Guard, OversizedPacketsAreNotSent) {
  attach_and_start({.tx_offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS});
  EXPECT_EQ(send(make_chain(make_frame(9216), {2000, 2000, 2000, 2000, 1216})), 1u);
  EXPECT_EQ(xstat("tx_oversize"), 1u);
  EXPECT_EQ(stats().oerrors, 1u);
  expect_alive();
}

TEST_F(Guard, FramesAboveTheMtuAreDroppedNotCut) {
  attach_and_start();
  ASSERT_EQ(send(make_frame(1519)), 1u);  // 1518 with a VLAN tag would be good
  EXPECT_EQ(receive(1).size(), 0u);
  EXPECT_EQ(xstat("rx_oversize"), 1u);
  EXPECT_EQ(stats().ierrors, 1u);
  ASSERT_EQ(send(make_frame(1518)), 1u);
  EXPECT_EQ(receive(1).size(), 1u);
  expect_alive();
}

TEST_F(Guard, RuntsArePadded) {
  attach_and_start();
  bus->wire().loop = false;
  ASSERT_EQ(send(make_frame(42, 1)), 1u);
  ASSERT_EQ(bus->wire().from_card.size(), 1u);
  Bytes padded = make_frame(42, 1);
  padded.resize(60);
  EXPECT_EQ(bus->wire().from_card[0], padded);
  EXPECT_EQ(xstat("tx_padded"), 1u);
}

TEST_F(Guard, BuffersThatAreTooSmallAreRefused) {
  rte_mempool* small = rte_pktmbuf_pool_create("small", 255, 0, 0, 512 + RTE_PKTMBUF_HEADROOM, 0);
  ASSERT_EQ(attach(), 0);
  ASSERT_EQ(configure({.rx_pool = small}), 0);
  EXPECT_LT(rte_eth_dev_start(port), 0);
  EXPECT_EQ(rte_mempool_in_use_count(small), 0u);
  // The same buffers with scatter.
  ASSERT_EQ(start({.descriptors = 64, .rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER, .rx_pool = small}), 0);
  ASSERT_EQ(send(make_frame(1500, 3)), 1u);
  const std::vector<Bytes> received = receive(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0], make_frame(1500, 3));
  detach();
  EXPECT_EQ(rte_mempool_in_use_count(small), 0u);
  rte_mempool_free(small);
}

/// The error says what would help.
TEST_F(Guard, WhyBuffersAreTooSmall) {
  rte_mempool* small = rte_pktmbuf_pool_create("small", 255, 0, 0, 512 + RTE_PKTMBUF_HEADROOM, 0);
  ASSERT_EQ(attach(), 0);
  const auto said = [&](const PortSetup& setup) {
    char* text = nullptr;
    size_t bytes = 0;
    FILE* const stream = open_memstream(&text, &bytes);
    rte_openlog_stream(stream);
    EXPECT_LT(start(setup), 0);
    rte_openlog_stream(nullptr);
    std::fclose(stream);
    const std::string all = text;
    std::free(text);
    return all;
  };
  EXPECT_NE(said({.rx_pool = small}).find("offload SCATTER or larger buffers are needed"), std::string::npos);
  const std::string with_scatter = said({.rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER, .mtu = 9000, .rx_pool = small});
  EXPECT_NE(with_scatter.find(": larger buffers are needed"), std::string::npos) << with_scatter;
  detach();
  rte_mempool_free(small);
}

TEST_F(Guard, PoolWithoutBuffersFailsToStart) {
  rte_mempool* empty = rte_pktmbuf_pool_create("empty", 1, 0, 0, kRoom + RTE_PKTMBUF_HEADROOM, 0);
  rte_mbuf* last = rte_pktmbuf_alloc(empty);
  ASSERT_EQ(attach(), 0);
  EXPECT_LT(start({.rx_pool = empty}), 0);
  rte_pktmbuf_free(last);
  ASSERT_EQ(start(), 0);
  detach();
  rte_mempool_free(empty);
}

/// When the last of several queues fails, the others are as if the port had not been started.
TEST_F(Guard, AStartThatFailsInTheMiddleLeavesNothingStarted) {
  rte_mempool* empty = rte_pktmbuf_pool_create("empty", 1, 0, 0, kRoom + RTE_PKTMBUF_HEADROOM, 0);
  rte_mbuf* last = rte_pktmbuf_alloc(empty);
  ASSERT_EQ(attach(), 0);
  ASSERT_EQ(configure({.rx_queues = 3}), 0);
  ASSERT_EQ(rte_eth_rx_queue_setup(port, 2, 128, 0, nullptr, empty), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_LT(rte_eth_dev_start(port), 0);
    EXPECT_EQ(rte_mempool_in_use_count(pool), 0u) << "the buffers of the first two";
    rte_eth_rxq_info info{};
    for (uint16_t q = 0; q < 3; ++q) {
      ASSERT_EQ(rte_eth_rx_queue_info_get(port, q, &info), 0);
      EXPECT_EQ(info.queue_state, RTE_ETH_QUEUE_STATE_STOPPED) << q;
    }
  }
  rte_pktmbuf_free(last);
  ASSERT_EQ(start({.rx_queues = 3}), 0);
  expect_alive();
  detach();
  rte_mempool_free(empty);
}

// ---- The card goes away

std::atomic<int> removals{0};

int on_removal(uint16_t, rte_eth_event_type, void*, void*) {
  ++removals;
  return 0;
}

TEST_F(Guard, SurpriseRemoval) {
  attach_and_start();
  removals = 0;
  ASSERT_EQ(rte_eth_dev_callback_register(port, RTE_ETH_EVENT_INTR_RMV, on_removal, nullptr), 0);
  for (unsigned i = 0; i < 20; ++i) ASSERT_EQ(send(make_frame(64)), 1u);
  bus->card().remove();
  rte_mbuf* m = make_mbuf(make_frame(64));
  EXPECT_EQ(send(m), 1u);  // the removal is not known yet
  rte_eth_link link{};
  for (int i = 0; i < 3; ++i) ASSERT_EQ(rte_eth_link_get_nowait(port, &link), 0);
  EXPECT_EQ(link.link_status, RTE_ETH_LINK_DOWN);
  EXPECT_EQ(rte_eth_dev_is_removed(port), 1);
  m = make_mbuf(make_frame(64));
  EXPECT_EQ(send(m), 0u);
  rte_pktmbuf_free(m);
  EXPECT_EQ(receive(1).size(), 0u);
  for (int i = 0; i < 200 && removals == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  rte_eth_stats ignored{};
  rte_eth_stats_get(port, &ignored);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(removals, 1);
  EXPECT_EQ(rte_eth_dev_stop(port), 0);
  EXPECT_NE(rte_eth_dev_start(port), 0);
  EXPECT_EQ(rte_mempool_in_use_count(pool), 0u);
  EXPECT_EQ(rte_mempool_in_use_count(tx_pool), 0u);
}

TEST_F(Guard, RemovalDuringStop) {
  attach_and_start();
  for (unsigned i = 0; i < 20; ++i) ASSERT_EQ(send(make_frame(64)), 1u);
  bus->card().remove();
  EXPECT_EQ(rte_eth_dev_stop(port), 0);
  EXPECT_EQ(rte_eth_dev_close(port), 0);
}

// ---- Cards that cannot be used. The default build: device list at 0, interface list at 0x80000.

struct BadCard {
  const char* what;
  std::vector<card::CardConfig::RegisterOverride> overrides;
};

class Probe : public DriverRig, public ::testing::WithParamInterface<BadCard> {};

TEST_P(Probe, IsRefused) {
  card::CardConfig config;
  config.overrides = GetParam().overrides;
  EXPECT_EQ(attach(config), -ENODEV);
  EXPECT_EQ(rte_eth_dev_count_avail(), 0u);
}

INSTANTIATE_TEST_SUITE_P(BadCards, Probe,
                         ::testing::Values(BadCard{"FirmwareBlockOfAnotherGeneration", {{0x04, 0x200}}},
                                           BadCard{"InterfaceControlOfAnotherGeneration", {{0x80004, 0x300}}},
                                           BadCard{"LeadsOutside", {{0x08, 0x7ffffff0}}},
                                           BadCard{"AllOnes", {{0x00, 0xffffffff}, {0x04, 0xffffffff}}}),
                         [](const auto& bad) { return std::string(bad.param.what); });

TEST_F(Guard, BlockListIsALoop) {
  const uint32_t second = ModelBus(card::CardConfig{}).read32(0x08);
  ASSERT_NE(second, 0u);
  card::CardConfig config;
  config.overrides = {{second + 8, second}};
  EXPECT_EQ(attach(config), -ENODEV);
}

TEST_F(Guard, GoneBeforeItWasProbed) {
  auto made = std::make_unique<ModelBus>(card::CardConfig{});
  made->card().remove();
  EXPECT_EQ(attach_bus(std::move(made)), -ENODEV);
}

// ---- Arguments

TEST_F(Guard, BadArgumentsAreRefused) {
  for (const char* arguments :
       {"colour=blue", "mac=01:00:00:00:00:01", "mac=nonsense", "rx_queues=0", "rx_queues=7x", "rx_queues=", "ports",
        "=1", "loss=2", "socket=/run/x", "card=toaster", "card=vfio-user", "card=vfio-user,socket=/nowhere/card.sock",
        "wire=string:can", "wire=loop,wire=loop", "max_frame=10000"}) {
    EXPECT_LT(rte_vdev_init("net_mqnic_bad", arguments), 0) << arguments;
    EXPECT_EQ(rte_eth_dev_count_avail(), 0u) << arguments;
  }
}

TEST_F(Guard, AddressesStayTheSame) {
  rte_ether_addr first{}, again{}, given{};
  ASSERT_EQ(attach(), 0);
  rte_eth_macaddr_get(port, &first);
  detach();
  ASSERT_EQ(attach(), 0);
  rte_eth_macaddr_get(port, &again);
  detach();
  EXPECT_TRUE(rte_is_same_ether_addr(&first, &again));
  EXPECT_TRUE(rte_is_local_admin_ether_addr(&first));
  EXPECT_TRUE(rte_is_valid_assigned_ether_addr(&first));
  ASSERT_EQ(attach({}, "mac=02:00:00:00:12:34"), 0);
  rte_eth_macaddr_get(port, &given);
  EXPECT_EQ(given.addr_bytes[4], 0x12);
  EXPECT_EQ(given.addr_bytes[5], 0x34);
}

}  // namespace
}  // namespace mqnic::test
