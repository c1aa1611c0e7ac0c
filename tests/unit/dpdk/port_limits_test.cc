// A device with rings of its own sizes: net_ring, which takes any, is made to say so.
#include <ethdev_driver.h>
#include <gtest/gtest.h>
#include <rte_eth_ring.h>
#include <rte_ring.h>

#include "dpdk/dpdk_port.h"
#include "dpdk/existing_port.h"
#include "eal_environment.h"

namespace uroce {
namespace {

const eth_dev_ops* g_ops = nullptr;
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
  rte_ring* ring = rte_ring_create("limited", 16, SOCKET_ID_ANY, 0);
  const int id = rte_eth_from_rings("net_ring_limited", &ring, 1, &ring, 1, 0);
  ASSERT_GE(id, 0);
  g_ops = rte_eth_devices[id].dev_ops;
  eth_dev_ops limited = *g_ops;
  limited.dev_infos_get = limited_info;
  limited.rx_queue_setup = noted_rx_setup;
  limited.tx_queue_setup = noted_tx_setup;
  rte_eth_devices[id].dev_ops = &limited;
  DpdkPortOptions options;
  options.port_id = static_cast<uint16_t>(id);
  options.unplug = false;
  std::string error;
  EXPECT_NE(DpdkPort::start(options, error), nullptr) << error;
  EXPECT_EQ(g_rx_descriptors, 96) << "the most that it has";
  EXPECT_EQ(g_tx_descriptors, 512) << "the least that it has";
  rte_eth_devices[id].dev_ops = g_ops;
}

uint16_t g_max_mtu = 0;

int info_with_max_mtu(rte_eth_dev* device, rte_eth_dev_info* info) {
  const int rc = g_ops->dev_infos_get(device, info);
  info->max_mtu = g_max_mtu;
  return rc;
}

/// An application's port, opened by an endpoint.
TEST(PortLimits, FramesAreNoLongerThanTheDeviceTakesThem) {
  rte_ring* ring = rte_ring_create("short_frames", 16, SOCKET_ID_ANY, 0);
  const int id = rte_eth_from_rings("short_frames", &ring, 1, &ring, 1, 0);
  ASSERT_GE(id, 0);
  g_ops = rte_eth_devices[id].dev_ops;
  eth_dev_ops limited = *g_ops;
  limited.dev_infos_get = info_with_max_mtu;
  rte_eth_devices[id].dev_ops = &limited;
  EndpointConfig config;
  config.eal_running = true;
  config.port = std::to_string(id);
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
  rte_eth_devices[id].dev_ops = g_ops;
}

}  // namespace
}  // namespace uroce
