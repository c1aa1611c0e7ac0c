// Segments, checksums, hashes, clocks, pause frames, interrupts: what the card does besides moving frames.
#include <rte_interrupts.h>
#include <rte_ip.h>
#include <rte_mbuf_dyn.h>
#include <rte_udp.h>

#include <cstring>
#include <set>

#include "pmd/hw/description.h"
#include "pmd/hw/registers.h"
#include "tests/unit/pmd/driver_rig.h"

namespace mqnic::test {
namespace {

class Offload : public DriverRig {};

// ---- Segments

TEST_F(Offload, GathersUpToEightSegments) {
  attach_and_start({.tx_offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS});
  for (unsigned n = 1; n <= 8; ++n) {
    const Bytes frame = make_frame(n * 100, n);
    ASSERT_EQ(send(make_chain(frame, std::vector<uint16_t>(n, 100))), 1u);
    const std::vector<Bytes> received = receive(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0], frame);
  }
  // A shorter packet replaces a longer one: the rest of its block is empty.
  for (unsigned i = 0; i < 300; ++i) {
    const unsigned n = i % 7 + 1;
    const Bytes frame = make_frame(n * 60, i);
    ASSERT_EQ(send(make_chain(frame, std::vector<uint16_t>(n, 60))), 1u);
    const std::vector<Bytes> received = receive(1);
    ASSERT_EQ(received.size(), 1u);
    ASSERT_EQ(received[0], frame);
  }
  EXPECT_EQ(xstat("tx_linearised"), 0u);
}

TEST_F(Offload, TooManySegmentsAreJoined) {
  attach_and_start({.tx_offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS});
  const Bytes small = make_frame(20 * 50, 1);
  ASSERT_EQ(send(make_chain(small, std::vector<uint16_t>(20, 50))), 1u);
  const Bytes large = make_frame(20 * 400, 2);  // more than fits into the first segment
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  ASSERT_EQ(
      start({.rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER, .tx_offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS, .mtu = 9000}), 0);
  bus->wire().to_card.clear();
  ASSERT_EQ(send(make_chain(large, std::vector<uint16_t>(20, 400))), 1u);
  const std::vector<Bytes> received = receive(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0], large);
  EXPECT_EQ(xstat("tx_linearised"), 2u);
  EXPECT_EQ(xstat("tx_too_many_pieces"), 0u);
}

TEST_F(Offload, ChainsWithoutTheOffloadAreJoined) {
  attach_and_start();
  const Bytes frame = make_frame(600, 5);
  ASSERT_EQ(send(make_chain(frame, {200, 200, 200})), 1u);
  const std::vector<Bytes> received = receive(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0], frame);
}

TEST_F(Offload, ScattersJumboFrames) {
  attach_and_start({.descriptors = 64,
                    .rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER,
                    .tx_offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS,
                    .mtu = 9196});
  for (const size_t bytes : {60u, 2047u, 2048u, 2049u, 4096u, 4097u, 9000u, 9214u}) {
    for (unsigned i = 0; i < 70; ++i) {
      const Bytes frame = make_frame(bytes, i);
      std::vector<uint16_t> pieces(bytes / 2000, 2000);
      pieces.push_back(static_cast<uint16_t>(bytes % 2000));
      ASSERT_EQ(send(make_chain(frame, pieces)), 1u);
      rte_mbuf* m = receive_mbuf();
      ASSERT_NE(m, nullptr) << bytes;
      EXPECT_EQ(m->nb_segs, (bytes + kRoom - 1) / kRoom);
      ASSERT_EQ(bytes_of(m), frame);
      rte_pktmbuf_free(m);
    }
  }
  rte_eth_rxq_info info{};
  ASSERT_EQ(rte_eth_rx_queue_info_get(port, 0, &info), 0);
  EXPECT_EQ(info.scattered_rx, 1);
}

TEST_F(Offload, MtuFollowsTheFrameSizeRegister) {
  attach_and_start();
  EXPECT_EQ(rte_eth_dev_set_mtu(port, 9197), -EINVAL);
  EXPECT_LT(rte_eth_dev_set_mtu(port, 9000), 0);  // the buffers have 2048 bytes
  uint16_t mtu = 0;
  ASSERT_EQ(rte_eth_dev_get_mtu(port, &mtu), 0);
  EXPECT_EQ(mtu, 1500) << "what was refused is not said";
  ASSERT_EQ(rte_eth_dev_set_mtu(port, 1000), 0);
  ASSERT_EQ(send(make_frame(1018)), 1u);
  EXPECT_EQ(receive(1).size(), 1u);
  ASSERT_EQ(send(make_frame(1019)), 1u);
  EXPECT_EQ(receive(1).size(), 0u);
  ASSERT_EQ(rte_eth_dev_set_mtu(port, 2000), 0);
  ASSERT_EQ(send(make_frame(2018)), 1u);
  EXPECT_EQ(receive(1).size(), 1u);
}

// ---- Checksums

constexpr uint64_t kRxSums = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;

TEST_F(Offload, VerifiesReceivedChecksums) {
  attach_and_start({.rx_offloads = kRxSums});
  struct Case {
    size_t spoiled;  // byte that is wrong; 0: none
    uint64_t ip, l4;
  };
  const Case cases[] = {
      {0, RTE_MBUF_F_RX_IP_CKSUM_GOOD, RTE_MBUF_F_RX_L4_CKSUM_GOOD},
      {22, RTE_MBUF_F_RX_IP_CKSUM_BAD, RTE_MBUF_F_RX_L4_CKSUM_UNKNOWN},
      {50, RTE_MBUF_F_RX_IP_CKSUM_GOOD, RTE_MBUF_F_RX_L4_CKSUM_BAD},
      {40, RTE_MBUF_F_RX_IP_CKSUM_GOOD, RTE_MBUF_F_RX_L4_CKSUM_BAD},
  };
  for (const Case& test : cases) {
    for (const size_t payload : {18u, 19u, 1001u}) {
      Bytes frame = make_udp(payload);
      if (test.spoiled != 0) frame[test.spoiled] ^= 0x10;
      bus->wire().to_card.push_back(frame);
      rte_mbuf* m = receive_mbuf();
      ASSERT_NE(m, nullptr);
      EXPECT_EQ(m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK, test.ip) << test.spoiled;
      EXPECT_EQ(m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK, test.l4) << test.spoiled;
      rte_pktmbuf_free(m);
    }
  }
  EXPECT_EQ(xstat("rx_bad_ip_checksum"), 3u);
  EXPECT_EQ(xstat("rx_bad_l4_checksum"), 6u);
}

TEST_F(Offload, PaddingIsNotPartOfTheChecksum) {
  attach_and_start({.rx_offloads = kRxSums});
  for (const size_t payload : {1u, 2u}) {
    Bytes frame = make_udp(payload);
    frame.resize(60, 0xa5);
    bus->wire().to_card.push_back(frame);
    rte_mbuf* m = receive_mbuf();
    ASSERT_NE(m, nullptr);
    EXPECT_NE(m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_GOOD, 0u);
    rte_pktmbuf_free(m);
  }
}

TEST_F(Offload, MakesChecksumsOfSentPackets) {
  attach_and_start({.tx_offloads = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM});
  for (const size_t payload : {18u, 19u, 700u}) {
    const Bytes whole = make_udp(payload);
    Bytes without = whole;
    without[24] = without[25] = without[40] = without[41] = 0xee;
    rte_mbuf* m = make_mbuf(without);
    m->l2_len = 14;
    m->l3_len = 20;
    m->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM;
    ASSERT_EQ(rte_eth_tx_prepare(port, 0, &m, 1), 1u);
    ASSERT_EQ(send(m), 1u);
    const std::vector<Bytes> received = receive(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0], whole);
  }
  EXPECT_EQ(xstat("tx_software_sums"), 0u);
}

// The card's engine keeps only seven bits of where a sum starts, though the descriptor has eight (tx_engine.v).
TEST_F(Offload, ASumThatStartsBeyondSevenBitsIsMadeInSoftware) {
  attach_and_start({.tx_offloads = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM});
  Bytes whole = make_udp(300);
  constexpr uint16_t kOuter = 100;  // more headers in front of the packet's own
  whole.insert(whole.begin() + 14, kOuter, uint8_t{0x11});
  Bytes without = whole;
  without[24 + kOuter] = without[25 + kOuter] = without[40 + kOuter] = without[41 + kOuter] = 0xee;
  rte_mbuf* m = make_mbuf(without);
  m->l2_len = 14 + kOuter;
  m->l3_len = 20;
  m->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM;
  ASSERT_EQ(rte_eth_tx_prepare(port, 0, &m, 1), 1u);
  ASSERT_EQ(send(m), 1u);
  const std::vector<Bytes> received = receive(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0], whole);
  EXPECT_EQ(xstat("tx_software_sums"), 1u);
}

TEST_F(Offload, ChecksumFlagsThatDoNotFitThePacket) {
  attach_and_start({.tx_offloads = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM});
  for (const unsigned l3 : {0u, 16u, 60u, 500u}) {
    rte_mbuf* m = make_mbuf(make_udp(18));
    m->l2_len = 14;
    m->l3_len = l3 & 0x1ff;
    m->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM;
    EXPECT_EQ(send(m), 1u);
  }
  EXPECT_EQ(xstat("tx_bad_offload"), 4u);
  EXPECT_EQ(receive(1).size(), 0u);
}

TEST_F(Offload, PrepareRefusesWhatTheCardCannotDo) {
  attach_and_start();
  rte_mbuf* m = make_mbuf(make_udp(100));
  m->ol_flags |= RTE_MBUF_F_TX_TCP_SEG;
  EXPECT_EQ(rte_eth_tx_prepare(port, 0, &m, 1), 0u);
  EXPECT_EQ(rte_errno, ENOTSUP);
  rte_pktmbuf_free(m);
}

// ---- RSS

TEST_F(Offload, HashChoosesTheQueue) {
  attach_and_start({.rx_queues = 4, .rss_types = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_UDP});
  bus->wire().loop = false;
  std::set<unsigned> used;
  for (uint32_t i = 0; i < 64; ++i) {
    bus->wire().to_card.push_back(make_udp(64, 0x0a000100 + i, static_cast<uint16_t>(2000 + i)));
    for (uint16_t q = 0; q < 4; ++q) {
      rte_mbuf* m = nullptr;
      if (rte_eth_rx_burst(port, q, &m, 1) == 0) continue;
      EXPECT_NE(m->ol_flags & RTE_MBUF_F_RX_RSS_HASH, 0u);
      EXPECT_EQ(m->hash.rss % 256 % 4, q);
      used.insert(q);
      rte_pktmbuf_free(m);
    }
  }
  EXPECT_EQ(used.size(), 4u);

  // All entries of the table name queue 2.
  rte_eth_rss_reta_entry64 table[4]{};
  for (auto& group : table) {
    group.mask = UINT64_MAX;
    for (uint16_t& queue : group.reta) queue = 2;
  }
  ASSERT_EQ(rte_eth_dev_rss_reta_update(port, table, 256), 0);
  for (uint32_t i = 0; i < 20; ++i) bus->wire().to_card.push_back(make_udp(64, 0x0a000100 + i));
  EXPECT_EQ(receive(20, 2).size(), 20u);
  for (auto& group : table) memset(group.reta, 0, sizeof(group.reta));
  ASSERT_EQ(rte_eth_dev_rss_reta_query(port, table, 256), 0);
  EXPECT_EQ(table[3].reta[63], 2u);
}

TEST_F(Offload, RssKeyIsFixed) {
  attach_and_start({.rx_queues = 2, .rss_types = RTE_ETH_RSS_IPV4});
  uint8_t key[40] = {};
  rte_eth_rss_conf conf{};
  conf.rss_key = key;
  conf.rss_key_len = sizeof(key);
  ASSERT_EQ(rte_eth_dev_rss_hash_conf_get(port, &conf), 0);
  EXPECT_EQ(key[0], 0x6d);
  EXPECT_EQ(key[39], 0xfa);
  EXPECT_EQ(conf.rss_hf, RTE_ETH_RSS_IPV4);
  EXPECT_EQ(rte_eth_dev_rss_hash_update(port, &conf), 0);
  key[0] = 1;
  EXPECT_LT(rte_eth_dev_rss_hash_update(port, &conf), 0);
  conf.rss_key = nullptr;
  conf.rss_hf = RTE_ETH_RSS_IPV6;
  EXPECT_LT(rte_eth_dev_rss_hash_update(port, &conf), 0);
}

// ---- Pause frames

TEST_F(Offload, FlowControl) {
  attach_and_start();
  rte_eth_fc_conf conf{};
  ASSERT_EQ(rte_eth_dev_flow_ctrl_get(port, &conf), 0);
  EXPECT_EQ(conf.mode, RTE_ETH_FC_NONE);
  EXPECT_EQ(conf.high_water, 131072u / 2);
  conf.mode = RTE_ETH_FC_FULL;
  conf.high_water = 50000;
  ASSERT_EQ(rte_eth_dev_flow_ctrl_set(port, &conf), 0);
  conf = {};
  ASSERT_EQ(rte_eth_dev_flow_ctrl_get(port, &conf), 0);
  EXPECT_EQ(conf.mode, RTE_ETH_FC_FULL);
  EXPECT_EQ(conf.high_water, 50000u);
  conf.high_water = 200000;
  EXPECT_LT(rte_eth_dev_flow_ctrl_set(port, &conf), 0);
  conf.high_water = 50000;
  for (const auto mode : {RTE_ETH_FC_RX_PAUSE, RTE_ETH_FC_TX_PAUSE, RTE_ETH_FC_NONE, RTE_ETH_FC_FULL}) {
    conf.mode = mode;
    ASSERT_EQ(rte_eth_dev_flow_ctrl_set(port, &conf), 0);
    conf = {};
    ASSERT_EQ(rte_eth_dev_flow_ctrl_get(port, &conf), 0);
    EXPECT_EQ(conf.mode, mode);
  }
  rte_eth_pfc_conf priority{};
  EXPECT_EQ(rte_eth_dev_priority_flow_ctrl_set(port, &priority), -ENOTSUP);
}

// ---- Clocks

TEST_F(Offload, PacketsCarryTheirTime) {
  attach_and_start({.rx_offloads = RTE_ETH_RX_OFFLOAD_TIMESTAMP});
  const timespec start{1'700'000'000, 0};
  ASSERT_EQ(rte_eth_timesync_write_time(port, &start), 0);
  ASSERT_EQ(send(make_frame(64)), 1u);
  rte_mbuf* m = receive_mbuf();
  ASSERT_NE(m, nullptr);
  int offset = 0;
  uint64_t flag = 0;
  ASSERT_EQ(rte_mbuf_dyn_rx_timestamp_register(&offset, &flag), 0);
  EXPECT_NE(m->ol_flags & flag, 0u);
  const uint64_t stamp = *RTE_MBUF_DYNFIELD(m, offset, rte_mbuf_timestamp_t*);
  EXPECT_GE(stamp, 1'700'000'000'000'000'000u);
  EXPECT_LT(stamp, 1'700'000'001'000'000'000u);
  rte_pktmbuf_free(m);
}

TEST_F(Offload, TimeSynchronisation) {
  attach_and_start();
  ASSERT_EQ(rte_eth_timesync_enable(port), 0);
  const timespec start{1'700'000'000, 0};
  ASSERT_EQ(rte_eth_timesync_write_time(port, &start), 0);
  timespec sent{}, received{};
  EXPECT_LT(rte_eth_timesync_read_tx_timestamp(port, &sent), 0);
  Bytes frame = make_frame(80);
  frame[12] = 0x88;
  frame[13] = 0xf7;
  rte_mbuf* m = make_mbuf(frame);
  m->ol_flags |= RTE_MBUF_F_TX_IEEE1588_TMST;
  ASSERT_EQ(send(m), 1u);
  m = receive_mbuf();
  ASSERT_NE(m, nullptr);
  EXPECT_NE(m->ol_flags & RTE_MBUF_F_RX_IEEE1588_TMST, 0u);
  rte_pktmbuf_free(m);
  ASSERT_EQ(rte_eth_timesync_read_tx_timestamp(port, &sent), 0);
  ASSERT_EQ(rte_eth_timesync_read_rx_timestamp(port, &received, 0), 0);
  EXPECT_EQ(sent.tv_sec, 1'700'000'000);
  EXPECT_EQ(received.tv_sec, 1'700'000'000);
  EXPECT_GE(received.tv_nsec, sent.tv_nsec);
  EXPECT_LT(rte_eth_timesync_read_rx_timestamp(port, &received, 0), 0);  // only once
  ASSERT_EQ(rte_eth_timesync_disable(port), 0);
}

// ---- Interrupts

int wait_for_interrupt(int milliseconds) {
  rte_epoll_event event{};
  return rte_epoll_wait(RTE_EPOLL_PER_THREAD, &event, 1, milliseconds);
}

TEST_F(Offload, RxInterrupts) {
  attach_and_start({.rx_queues = 2, .rx_interrupts = true});
  bus->wire().loop = false;
  for (uint16_t q = 0; q < 2; ++q) {
    ASSERT_EQ(rte_eth_dev_rx_intr_ctl_q(port, q, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, nullptr), 0);
  }
  for (unsigned round = 0; round < 200; ++round) {
    ASSERT_EQ(rte_eth_dev_rx_intr_enable(port, 0), 0);
    EXPECT_EQ(wait_for_interrupt(0), 0) << round;
    bus->wire().to_card.push_back(make_frame(64));
    bus->run();
    bus->run();
    for (int i = 0; i < 20; ++i) bus->run();  // interrupts have a minimum interval
    ASSERT_EQ(wait_for_interrupt(100), 1) << round;
    ASSERT_EQ(rte_eth_dev_rx_intr_disable(port, 0), 0);
    ASSERT_EQ(receive(1).size(), 1u);
  }
  // A packet that came before.
  bus->wire().to_card.push_back(make_frame(64));
  bus->run();
  ASSERT_EQ(rte_eth_dev_rx_intr_enable(port, 0), 0);
  EXPECT_EQ(wait_for_interrupt(100), 1);
  EXPECT_EQ(receive(1).size(), 1u);
  for (uint16_t q = 0; q < 2; ++q) {
    ASSERT_EQ(rte_eth_dev_rx_intr_ctl_q(port, q, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_DEL, nullptr), 0);
  }
  // And once more after a stop.
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  ASSERT_EQ(rte_eth_dev_start(port), 0);
  ASSERT_EQ(rte_eth_dev_rx_intr_enable(port, 1), 0);
}

TEST_F(Offload, InterruptsThatNobodyAskedFor) {
  attach_and_start();
  EXPECT_EQ(rte_eth_dev_rx_intr_enable(port, 0), -ENOTSUP);
  EXPECT_EQ(rte_eth_dev_rx_intr_disable(port, 0), -ENOTSUP);
}

/// The card has no filter: it receives every frame, so lists are accepted.
TEST_F(Offload, MulticastListsAreTaken) {
  attach_and_start();
  rte_ether_addr group{{0x33, 0x33, 0, 0, 0, 1}};
  EXPECT_EQ(rte_eth_dev_set_mc_addr_list(port, &group, 1), 0);
  EXPECT_EQ(rte_eth_dev_set_mc_addr_list(port, nullptr, 0), 0);
}

// ---- Several ports

TEST_F(Offload, AStoppedPortStopsItsSchedulerAlone) {
  card::CardConfig config;
  config.interfaces = 2;
  ASSERT_EQ(attach(config), 0);
  CardDescription card;
  ASSERT_FALSE(describe_card(*bus, card));
  const auto runs = [&](size_t interface) {
    const uint32_t control = card.interfaces[interface].schedulers[0].control + scheduler_round_robin::kControl;
    return (bus->read32(control) & scheduler_round_robin::kEnable) != 0;
  };
  const uint16_t first = port;
  ASSERT_EQ(start(), 0);
  ASSERT_EQ(rte_eth_dev_get_port_by_name("net_mqnic_test_if1_port0", &port), 0);
  ASSERT_EQ(start(), 0);
  EXPECT_TRUE(runs(0) && runs(1));
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  EXPECT_TRUE(runs(0) && !runs(1));
  port = first;
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  EXPECT_FALSE(runs(0));
}

TEST_F(Offload, EveryPortOfTheCardIsAnEthdev) {
  card::CardConfig config;
  config.interfaces = 2;
  config.ports_per_interface = 2;
  ASSERT_EQ(attach(config), 0);
  ASSERT_EQ(rte_eth_dev_count_avail(), 4u);
  const char* names[] = {"net_mqnic_test", "net_mqnic_test_if0_port1", "net_mqnic_test_if1_port0",
                         "net_mqnic_test_if1_port1"};
  std::set<std::string> addresses;
  const uint16_t first = port;
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(rte_eth_dev_get_port_by_name(names[i], &port), 0) << names[i];
    ASSERT_EQ(start({.descriptors = 64}), 0);
    rte_ether_addr mac{};
    rte_eth_macaddr_get(port, &mac);
    addresses.insert(std::string(reinterpret_cast<char*>(mac.addr_bytes), 6));
  }
  EXPECT_EQ(addresses.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    bus->wire(i).loop = false;
    ASSERT_EQ(rte_eth_dev_get_port_by_name(names[i], &port), 0);
    for (unsigned n = 0; n < 100; ++n) {
      bus->wire(i).from_card.clear();
      ASSERT_EQ(send(make_frame(100 + i, n)), 1u);
      ASSERT_EQ(bus->wire(i).from_card.size(), 1u) << names[i];
      EXPECT_EQ(bus->wire(i).from_card[0], make_frame(100 + i, n));
      bus->wire(i).to_card.push_back(make_frame(200 + i, n));
      const std::vector<Bytes> received = receive(1);
      ASSERT_EQ(received.size(), 1u);
      EXPECT_EQ(received[0], make_frame(200 + i, n));
    }
    if (i != 0) {
      ASSERT_EQ(rte_eth_dev_stop(port), 0);
    }
  }
  port = first;
}

TEST_F(Offload, LinkIsUpWithoutAnInventedSpeed) {
  attach_and_start();
  rte_eth_link link{};
  ASSERT_EQ(rte_eth_link_get_nowait(port, &link), 0);
  EXPECT_EQ(link.link_status, RTE_ETH_LINK_UP);
  EXPECT_EQ(link.link_speed, RTE_ETH_SPEED_NUM_UNKNOWN);
  char version[64] = {};
  EXPECT_EQ(rte_eth_dev_fw_version_get(port, version, sizeof(version)), 0);
  EXPECT_NE(strstr(version, "board 0x12340001"), nullptr) << version;
}

}  // namespace
}  // namespace mqnic::test
