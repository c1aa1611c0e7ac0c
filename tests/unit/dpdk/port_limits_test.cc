// A device with rings of its own sizes: net_ring, which takes any, is made to say so.
#include <ethdev_driver.h>
#include <gtest/gtest.h>
#include <rte_eth_ring.h>
#include <rte_ring.h>

#include "dpdk/dpdk_port.h"
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

}  // namespace
}  // namespace uroce
