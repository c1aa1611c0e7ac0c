// What DPDK programs ask of a device beside packets: resets, what it is, what it cannot.
#include <gmock/gmock.h>
#include <rte_dev_info.h>

#include "pmd/ethdev/card_wait.h"
#include "tests/unit/pmd/driver_rig.h"

namespace mqnic::test {
namespace {

class Device : public DriverRig {
 protected:
  void expect_a_frame_arrives(unsigned seed) {
    ASSERT_EQ(send(make_frame(300, seed)), 1u);
    const std::vector<Bytes> received = receive(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0], make_frame(300, seed));
  }
};

// ---- Reset

TEST_F(Device, AResetPortIsAsAfterProbing) {
  attach_and_start({.rx_queues = 3, .tx_queues = 2, .rss_types = RTE_ETH_RSS_IPV4});
  expect_a_frame_arrives(1);
  rte_eth_fc_conf pauses{};
  ASSERT_EQ(rte_eth_dev_flow_ctrl_get(port, &pauses), 0);
  const uint32_t default_water = pauses.high_water;
  pauses.mode = RTE_ETH_FC_FULL;
  pauses.high_water = 4096;
  ASSERT_EQ(rte_eth_dev_flow_ctrl_set(port, &pauses), 0);
  rte_ether_addr first{}, now{}, other = {{2, 0, 0, 0, 0, 9}};
  ASSERT_EQ(rte_eth_macaddr_get(port, &first), 0);
  ASSERT_EQ(rte_eth_dev_default_mac_addr_set(port, &other), 0);
  ASSERT_EQ(rte_eth_dev_set_mtu(port, 1400), 0);
  ASSERT_EQ(rte_eth_dev_reset(port), 0);
  uint16_t mtu = 0;
  ASSERT_EQ(rte_eth_dev_get_mtu(port, &mtu), 0);
  EXPECT_EQ(mtu, RTE_ETHER_MTU);
  ASSERT_EQ(rte_eth_macaddr_get(port, &now), 0);
  EXPECT_TRUE(rte_is_same_ether_addr(&now, &first));
  EXPECT_EQ(rte_mempool_in_use_count(pool), 0u);
  EXPECT_EQ(rte_mempool_in_use_count(tx_pool), 0u);
  for (const uint64_t count : {stats().ipackets, stats().ibytes, stats().opackets, stats().obytes})
    EXPECT_EQ(count, 0u);
  ASSERT_EQ(rte_eth_dev_flow_ctrl_get(port, &pauses), 0);
  EXPECT_EQ(pauses.mode, RTE_ETH_FC_NONE);
  EXPECT_EQ(pauses.high_water, default_water);
  EXPECT_LT(rte_eth_dev_start(port), 0) << "it has no queues";
  ASSERT_EQ(start(), 0);
  expect_a_frame_arrives(2);
}

TEST_F(Device, AResetGivesNothingBackThatTheCardReads) {
  attach_and_start();
  bus->wire().loop = false;
  bus->wire().jammed = true;
  for (unsigned i = 0; i < 40; ++i) ASSERT_EQ(send(make_frame(200, i)), 1u);
  ASSERT_EQ(rte_eth_dev_reset(port), 0);
  EXPECT_EQ(rte_mempool_in_use_count(tx_pool), 32u);
  ASSERT_EQ(start({.descriptors = 256}), 0);
  bus->wire().jammed = false;
  for (unsigned i = 0; i < 40; ++i) ASSERT_EQ(send(make_frame(200, 100 + i)), 1u);
  bus->run();
  ASSERT_EQ(bus->wire().from_card.size(), 72u);
  EXPECT_EQ(bus->wire().from_card[31], make_frame(200, 31));
  EXPECT_EQ(bus->wire().from_card[32], make_frame(200, 100));
}

TEST_F(Device, ACardThatIsGoneCannotBeReset) {
  attach_and_start();
  bus->card().remove();
  EXPECT_EQ(rte_eth_dev_reset(port), -EIO);
}

// ---- What the card still has

TEST_F(Device, ThatIsClosedBeforeAnotherPortTouchesItsPoolNoMore) {
  card::CardConfig config;
  config.ports_per_interface = 2;
  attach_and_start({}, config);
  bus->wire().loop = false;
  bus->wire().jammed = true;
  for (unsigned i = 0; i < 40; ++i) ASSERT_EQ(send(make_frame(200, i)), 1u);
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  ASSERT_EQ(rte_eth_dev_close(port), 0);
  EXPECT_EQ(rte_mempool_in_use_count(tx_pool), 32u);
  detach();  // the other port, and the card with it
  held_by_card = 32;
  EXPECT_EQ(rte_mempool_in_use_count(tx_pool), held_by_card) << "the pool might be gone by now";
}

TEST_F(Device, GivesNoRxQueueTheCompletionQueueOfPacketsInTheCard) {
  card::CardConfig config;
  config.completion_queues = 8;
  attach_and_start({.tx_queues = 4}, config);
  bus->wire().loop = false;
  bus->wire().jammed = true;
  for (unsigned i = 0; i < 40; ++i) ASSERT_EQ(send(make_frame(200, i), 3), 1u);
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  EXPECT_EQ(configure({.rx_queues = 5}), -EBUSY);
  EXPECT_EQ(configure({.rx_queues = 4}), 0);
  ASSERT_EQ(start({.rx_queues = 4, .tx_queues = 4}), 0);
  bus->wire().jammed = false;
  bus->run();
  EXPECT_EQ(rte_eth_tx_done_cleanup(port, 3, 0), 32);
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  EXPECT_EQ(configure({.rx_queues = 5}), 0);
}

TEST_F(Device, IsNotLateWhenItIsDone) {
  ASSERT_EQ(attach(), 0);
  ethdev::Port& waiting = ethdev::port_of(&rte_eth_devices[port]);
  unsigned looks = 0;
  // The first look finds nothing, and takes longer than the whole time.
  EXPECT_TRUE(ethdev::wait_for_card(waiting, 1, [&] {
    if (looks++ == 0) rte_delay_us_block(2000);
    return looks == 2;
  }));
  EXPECT_FALSE(ethdev::wait_for_card(waiting, 1, [] { return false; }));
}

// ---- Filters, of which the card has none

TEST_F(Device, IsPromiscuousAndSaysSo) {
  ASSERT_EQ(attach(), 0);
  EXPECT_EQ(rte_eth_promiscuous_get(port), 1);
  EXPECT_EQ(rte_eth_allmulticast_get(port), 1);
  ASSERT_EQ(start(), 0);
  EXPECT_EQ(rte_eth_promiscuous_disable(port), -ENOTSUP);
  EXPECT_EQ(rte_eth_allmulticast_disable(port), -ENOTSUP);
  EXPECT_EQ(rte_eth_promiscuous_enable(port), 0);
  EXPECT_EQ(rte_eth_allmulticast_enable(port), 0);
  EXPECT_EQ(rte_eth_promiscuous_get(port), 1);
  EXPECT_EQ(rte_eth_allmulticast_get(port), 1);
  ASSERT_EQ(rte_eth_dev_reset(port), 0);
  EXPECT_EQ(rte_eth_promiscuous_get(port), 1);
  ASSERT_EQ(start(), 0);
  expect_a_frame_arrives(3);  // to 02:..., which is not the port's own address
}

// ---- What it is

TEST_F(Device, ThatIsKnownHasABoardsName) {
  card::CardConfig config;
  config.board_id = 0x10ee90fa;
  ASSERT_EQ(attach(config), 0);
  char text[128] = {};
  EXPECT_EQ(rte_eth_dev_fw_version_get(port, text, sizeof(text)), 0);
  EXPECT_STREQ(text, "0.0.1.0 git 00000000 board 0x10ee90fa Xilinx Alveo U250");
  char narrow[16] = {};
  EXPECT_EQ(rte_eth_dev_fw_version_get(port, narrow, sizeof(narrow)), static_cast<int>(strlen(text)) + 1);
}

TEST_F(Device, RegistersAreThoseOfThePortAndItsQueues) {
  ASSERT_EQ(attach(), 0);
  ASSERT_EQ(start({.rx_queues = 2, .tx_queues = 3}), 0);
  rte_dev_reg_info info{};
  ASSERT_EQ(rte_eth_dev_get_reg_info(port, &info), 0);
  EXPECT_EQ(info.width, 4u);
  ASSERT_EQ(info.length, 44u + 5 * 10);
  std::vector<uint32_t> words(info.length + 1, 0x5a5a5a5a);
  info.data = words.data();
  ASSERT_EQ(rte_eth_dev_get_reg_info(port, &info), 0);
  EXPECT_EQ(info.version, 0x300u);
  EXPECT_EQ(words.back(), 0x5a5a5a5au);
  EXPECT_EQ(words[0], 0xc003u) << "port control";
  EXPECT_EQ(words[16], 0xc001u) << "interface control";
  EXPECT_EQ(words[32], 0xc040u) << "scheduler";
  for (unsigned q = 0; q < 2; ++q) {
    const uint32_t* queue = &words[44 + 10 * q];
    EXPECT_EQ(queue[2], 1u) << "enabled";
    EXPECT_EQ(queue[3], 0x07000000u | q) << "2^7 entries, its completion queue";
    EXPECT_EQ(queue[5 + 2], 0x70010000u) << "enabled, 2^7 entries";
    EXPECT_EQ(queue[9], 0u);
  }
  for (unsigned q = 0; q < 3; ++q) {
    const uint32_t* queue = &words[64 + 10 * q];
    EXPECT_EQ(queue[3] & 0xffffff, 127 - q);
    EXPECT_EQ(queue[9], 1u) << "channel on";
  }
  info.length = 20;
  EXPECT_EQ(rte_eth_dev_get_reg_info(port, &info), -EINVAL);
  bus->card().remove();
  info.length = 0;
  EXPECT_EQ(rte_eth_dev_get_reg_info(port, &info), -EIO);
}

TEST_F(Device, EveryQueueHasEveryStatistic) {
  attach_and_start({.rx_queues = 20, .tx_queues = 18});
  ASSERT_EQ(send(make_frame(300), 17), 1u);
  ASSERT_EQ(send(Bytes{}, 17), 1u);
  ASSERT_EQ(receive(1).size(), 1u);
  EXPECT_EQ(xstat("tx_q17_packets"), 1u);
  EXPECT_EQ(xstat("tx_q17_bytes"), 300u);
  EXPECT_EQ(xstat("tx_q17_zero_length"), 1u);
  EXPECT_EQ(xstat("tx_zero_length"), 1u);
  EXPECT_EQ(xstat("tx_q16_zero_length"), 0u);
  EXPECT_EQ(xstat("rx_q0_packets"), 1u);
  EXPECT_EQ(xstat("rx_q19_no_mbufs"), 0u);
  ASSERT_EQ(rte_eth_xstats_reset(port), 0);
  EXPECT_EQ(xstat("tx_q17_packets"), 0u);
}

TEST_F(Device, QueuesThatWereReleasedCountUntilTheNextReset) {
  attach_and_start({.rx_queues = 2, .tx_queues = 2});
  ASSERT_EQ(send(make_frame(300, 1), 1), 1u);
  ASSERT_EQ(receive(1).size(), 1u);
  for (const bool is_reset : {false, true}) {
    ASSERT_EQ(rte_eth_dev_stop(port), 0);
    ASSERT_EQ(start(), 0);
    ASSERT_EQ(is_reset ? rte_eth_stats_reset(port) : 0, 0);
    const uint64_t frames = is_reset ? 0 : 1;
    EXPECT_EQ(stats().ipackets, frames);
    EXPECT_EQ(stats().ibytes, frames * 300);
    EXPECT_EQ(stats().opackets, frames);
    EXPECT_EQ(stats().obytes, frames * 300);
  }
  expect_a_frame_arrives(2);
  EXPECT_EQ(stats().ipackets, 1u);
  EXPECT_EQ(stats().opackets, 1u);
}

// ---- What it does not have

TEST_F(Device, RefusesWhatTheCardHasNot) {
  ASSERT_EQ(attach(), 0);
  rte_eth_conf conf{};
  conf.intr_conf.lsc = 1;
  EXPECT_LT(rte_eth_dev_configure(port, 1, 1, &conf), 0) << "no interrupt for the link";
  rte_eth_dev_module_info module{};
  EXPECT_EQ(rte_eth_dev_get_module_info(port, &module), -ENOTSUP) << "I2C is different on each board";
  EXPECT_EQ(rte_eth_dev_get_eeprom_length(port), -ENOTSUP);
  EXPECT_EQ(rte_eth_dev_set_vlan_offload(port, RTE_ETH_VLAN_STRIP_OFFLOAD), -EINVAL);
  rte_ether_addr other = {{2, 0, 0, 0, 0, 9}};
  EXPECT_EQ(rte_eth_dev_mac_addr_add(port, &other, 0), -ENOTSUP);
}

}  // namespace
}  // namespace mqnic::test
