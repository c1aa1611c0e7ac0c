// A device with rings of its own sizes: net_ring, which takes any, is made to say so.
#include <ethdev_driver.h>
#include <gtest/gtest.h>
#include <rte_eth_ring.h>
#include <rte_ring.h>

#include <utility>

#include "dpdk/dpdk_port.h"
#include "dpdk/existing_port.h"
#include "eal_environment.h"

namespace uroce {
namespace {

const eth_dev_ops* g_ops = nullptr;  // the driver's own

/// A port of net_ring whose driver's functions are those of `ops`, until the end of a test.
class ChangedPort {
 public:
  explicit ChangedPort(const char* name) {
    rte_ring* ring = rte_ring_create(name, 16, SOCKET_ID_ANY, 0);
    id_ = rte_eth_from_rings(name, &ring, 1, &ring, 1, 0);
    ops = *(g_ops = device().dev_ops);
    device().dev_ops = &ops;
  }
  ~ChangedPort() { device().dev_ops = g_ops; }
  ChangedPort(const ChangedPort&) = delete;
  ChangedPort& operator=(const ChangedPort&) = delete;

  rte_eth_dev& device() { return rte_eth_devices[id_]; }
  int id() const { return id_; }
  DpdkPortOptions options() const {
    DpdkPortOptions options;
    options.port_id = static_cast<uint16_t>(id_);
    options.unplug = false;
    return options;
  }

  eth_dev_ops ops{};

 private:
  int id_ = -1;
};

uint16_t g_rx_descriptors = 0;
uint16_t g_tx_descriptors = 0;

int limited_info(rte_eth_dev* device, rte_eth_dev_info* info) {
  const int rc = g_ops->dev_infos_get(device, info);
  info->rx_desc_lim.nb_max = 96;
  info->rx_desc_lim.nb_min = 32;
  info->rx_desc_lim.nb_align = 32;
  info->tx_desc_lim.nb_max = 4096;
  info->tx_desc_lim.nb_min = 512;
  info->tx_desc_lim.nb_align = 64;
  return rc;
}

int noted_rx_setup(rte_eth_dev* device, uint16_t queue, uint16_t descriptors, unsigned socket,
                   const rte_eth_rxconf* conf, rte_mempool* pool) {
  g_rx_descriptors = descriptors;
  return g_ops->rx_queue_setup(device, queue, descriptors, socket, conf, pool);
}

int noted_tx_setup(rte_eth_dev* device, uint16_t queue, uint16_t descriptors, unsigned socket,
                   const rte_eth_txconf* conf) {
  g_tx_descriptors = descriptors;
  return g_ops->tx_queue_setup(device, queue, descriptors, socket, conf);
}

TEST(PortLimits, RingsAreAsLongAsTheDeviceTakesThem) {
  ChangedPort port("limited");
  port.ops.dev_infos_get = limited_info;
  port.ops.rx_queue_setup = noted_rx_setup;
  port.ops.tx_queue_setup = noted_tx_setup;
  std::string error;
  EXPECT_NE(DpdkPort::start(port.options(), error), nullptr) << error;
  EXPECT_EQ(g_rx_descriptors, 96) << "the most that it has";
  EXPECT_EQ(g_tx_descriptors, 512) << "the least that it has";
}

uint16_t g_max_mtu = 0;

int info_with_max_mtu(rte_eth_dev* device, rte_eth_dev_info* info) {
  const int rc = g_ops->dev_infos_get(device, info);
  info->max_mtu = g_max_mtu;
  return rc;
}

/// An application's port, opened by an endpoint.
TEST(PortLimits, FramesAreNoLongerThanTheDeviceTakesThem) {
  ChangedPort port("short_frames");
  port.ops.dev_infos_get = info_with_max_mtu;
  EndpointConfig config;
  config.eal_running = true;
  config.port = std::to_string(port.id());
  struct Row {
    uint16_t max_mtu;
    uint32_t wanted;
    uint32_t mtu;  // 0: refused
  };
  for (const Row& row : {Row{9600, 0, kFullMtu}, Row{UINT16_MAX, 0, kFullMtu}, Row{2000, 0, 2000},
                         Row{2000, 1500, 1500}, Row{2000, 2001, 0}, Row{575, 0, 0}}) {
    g_max_mtu = row.max_mtu;
    config.mtu = row.wanted;
    PortPlan plan;
    std::string error;
    EXPECT_EQ(plan_existing_port(config, plan, error), row.mtu != 0);
    if (row.mtu == 0) {
      EXPECT_EQ(error, row.wanted == 0 ? "port net_ring_short_frames takes an MTU of 575 at most, too little for RoCE"
                                       : "an MTU of 2001 is more than port net_ring_short_frames takes: 2000 at most");
      continue;
    }
    EXPECT_EQ(plan.options.mtu, row.mtu) << row.max_mtu;
    EXPECT_EQ(plan.max_frame_bytes, row.mtu + kLinkHeaderBytes) << "what the engine's MTU follows from";
  }
}

rte_eth_rxmode g_rx_mode{};
std::vector<uint16_t> g_vlans;

int info_of_virtio(rte_eth_dev* device, rte_eth_dev_info* info) {
  const int rc = g_ops->dev_infos_get(device, info);
  info->rx_offload_capa |= RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
  return rc;
}

int noted_configuration(rte_eth_dev* device) {
  g_rx_mode = device->data->dev_conf.rxmode;
  return g_ops->dev_configure(device);
}

int noted_vlan(rte_eth_dev*, uint16_t vlan, int on) {
  if (on != 0) g_vlans.push_back(vlan);
  return 0;
}

/// A virtio card drops every VLAN that it was not told of, even without a filter.
TEST(PortLimits, VirtioIsToldOfTheVlans) {
  ChangedPort port("vlans");
  rte_device& device = *port.device().device;
  const rte_driver* const driver = device.driver;
  port.ops.dev_infos_get = info_of_virtio;
  port.ops.dev_configure = noted_configuration;
  port.ops.vlan_filter_set = noted_vlan;
  DpdkPortOptions options = port.options();
  options.vlans = {100, 7};
  std::string error;
  for (const bool virtio : {true, false}) {
    rte_driver named{};
    named.name = virtio ? "net_virtio" : "net_e1000_em";
    device.driver = &named;
    g_vlans.clear();
    EXPECT_NE(DpdkPort::start(options, error), nullptr) << error;
    EXPECT_EQ(g_vlans, virtio ? (std::vector<uint16_t>{0, 100, 7}) : std::vector<uint16_t>{});
    EXPECT_EQ((g_rx_mode.offloads & RTE_ETH_RX_OFFLOAD_VLAN_FILTER) != 0, virtio) << "others receive all";
  }
  device.driver = driver;
}

unsigned g_looks_until_link = 0;
bool g_rested = true;  // since the last look: an interrupt could be handled

int link_that_comes_up(rte_eth_dev* device, int) {
  if (g_looks_until_link > 0 && std::exchange(g_rested, false)) g_looks_until_link--;
  device->data->dev_link.link_status = g_looks_until_link == 0 ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN;
  return 0;
}

/// Cards negotiate for a while after the start, during which they have no link.
TEST(PortLimits, WaitsForTheLink) {
  ChangedPort changed("negotiates");
  changed.ops.link_update = link_that_comes_up;
  DpdkPortOptions options = changed.options();
  std::string error;
  struct Row {
    Duration patience;
    unsigned looks;
    bool up;
  };
  for (const Row& row : {Row{{}, 1, true}, Row{{}, 20, false}, Row{milliseconds(60'000), 20, true},
                         Row{milliseconds(30), 1'000'000, false}}) {
    g_looks_until_link = row.looks;
    options.link_patience = row.patience;
    g_rested = true;
    const auto port = DpdkPort::start(options, error, [](Duration) { g_rested = true; });
    ASSERT_NE(port, nullptr) << error;
    EXPECT_EQ(port->link_up(), row.up) << row.looks;
  }
}

unsigned g_starts = 0;
bool g_peer_is_there = false;

int noted_start(rte_eth_dev* device) {
  g_starts++;
  return g_ops->dev_start(device);
}

int link_to_a_peer(rte_eth_dev* device, int) {
  device->data->dev_link.link_status = g_peer_is_there ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN;
  return 0;
}

/// Attempts to reach an absent peer become rare; after a peer was there in between, they are as frequent as at first.
TEST(PortLimits, APeerThatLeavesAgainIsCalledAsSoonAsBefore) {
  ChangedPort changed("leaves_again");
  changed.ops.dev_start = noted_start;
  changed.ops.link_update = link_to_a_peer;
  DpdkPortOptions options = changed.options();
  options.wire = options.connects = true;
  std::string error;
  g_starts = 0;
  g_peer_is_there = false;
  const auto port = DpdkPort::start(options, error);
  ASSERT_NE(port, nullptr) << error;
  EXPECT_EQ(g_starts, 1u);
  Instant now{0};
  const auto look = [&] {
    while (!port->on_turn(now)) now = now + milliseconds(1);
  };
  const auto looks_until_it_calls = [&] {
    const unsigned before = g_starts;
    unsigned looks = 0;
    for (; g_starts == before && looks < 1000; looks++) look();
    return looks;
  };
  for (int time = 0; time < 3; time++) {
    EXPECT_EQ(looks_until_it_calls(), 8u) << "absence " << time;
    EXPECT_EQ(looks_until_it_calls(), 8u);
    EXPECT_EQ(looks_until_it_calls(), 16u);
    EXPECT_EQ(looks_until_it_calls(), 32u);
    g_peer_is_there = true;
    look();
    EXPECT_TRUE(port->link_up());
    g_peer_is_there = false;
  }
}

}  // namespace
}  // namespace uroce
