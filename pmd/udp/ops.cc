#include "pmd/udp/ops.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "pmd/udp/log.h"
#include "pmd/udp/statistics.h"

namespace uroce::udp {
namespace {

/// Ethernet header, and the VLAN tag that others count with, which a frame has beyond the MTU.
constexpr uint32_t kOverhead = RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN;
constexpr uint16_t kBurst = 32;
constexpr uint16_t kRing = 512;
constexpr uint32_t kMtuMost = 9216;

const char* name_of(const rte_eth_dev* dev) { return dev->data->name; }

int get_info(rte_eth_dev* dev, rte_eth_dev_info* info) {
  const uint32_t of_interface = device_of(dev).port->netdev().mtu;
  info->max_mtu = static_cast<uint16_t>(std::clamp<uint32_t>(of_interface, RTE_ETHER_MIN_MTU, kMtuMost));
  info->max_rx_pktlen = info->max_mtu + kOverhead;
  info->min_mtu = RTE_ETHER_MIN_MTU;
  info->min_rx_bufsize = RTE_ETHER_MIN_LEN;
  info->max_rx_queues = info->max_tx_queues = 1;
  info->max_mac_addrs = 1;
  info->tx_offload_capa = info->tx_queue_offload_capa = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
  // There are no descriptors: a number that applications ask for changes nothing.
  info->default_rxportconf = info->default_txportconf = {kBurst, kRing, 1};
  return 0;
}

int configure(rte_eth_dev* dev) {
  if (dev->data->dev_conf.intr_conf.lsc == 0) return 0;
  UDP_LOG(ERR, "%s: it has no interrupt for the link", name_of(dev));
  return -ENOTSUP;
}

// Queues.

int set_up_rx_queue(rte_eth_dev* dev, uint16_t queue, uint16_t /*descriptors*/, unsigned /*socket*/,
                    const rte_eth_rxconf* /*conf*/, rte_mempool* pool) {
  if (pool == nullptr) {
    UDP_LOG(ERR, "%s: one buffer pool is needed", name_of(dev));
    return -EINVAL;
  }
  Device& device = device_of(dev);
  device.rx.pool = pool;
  device.rx.port_id = dev->data->port_id;
  dev->data->rx_queues[queue] = &device;
  return 0;
}

void release_rx_queue(rte_eth_dev* dev, uint16_t /*queue*/) { device_of(dev).rx.drop(); }

int set_up_tx_queue(rte_eth_dev* dev, uint16_t queue, uint16_t /*descriptors*/, unsigned /*socket*/,
                    const rte_eth_txconf* /*conf*/) {
  dev->data->tx_queues[queue] = &device_of(dev);
  return 0;
}

void release_tx_queue(rte_eth_dev* /*dev*/, uint16_t /*queue*/) {}

int get_rx_mode(rte_eth_dev* /*dev*/, uint16_t /*queue*/, rte_eth_burst_mode* mode) {
  std::snprintf(mode->info, sizeof mode->info, "recvmmsg, datagrams put together by the kernel");
  return 0;
}

int get_tx_mode(rte_eth_dev* /*dev*/, uint16_t /*queue*/, rte_eth_burst_mode* mode) {
  std::snprintf(mode->info, sizeof mode->info, "sendmmsg, messages cut by the kernel");
  return 0;
}

// Sizes.

int fit_frames(rte_eth_dev* dev, uint32_t mtu) {
  Device& device = device_of(dev);
  const uint32_t frame_bytes = mtu + kOverhead;
  if (device.rx.pool != nullptr) {
    const uint32_t room = rte_pktmbuf_data_room_size(device.rx.pool) - RTE_PKTMBUF_HEADROOM;
    if (frame_bytes > room) {
      UDP_LOG(ERR, "%s: frames of MTU %u do not fit buffers of %u bytes: larger ones are needed", name_of(dev), mtu,
              room);
      return -EINVAL;
    }
  }
  device.port->set_rx_frame_bytes(frame_bytes);
  return 0;
}

int set_mtu(rte_eth_dev* dev, uint16_t mtu) {
  return dev->data->dev_started == 0 ? 0 : fit_frames(dev, mtu);  // ethdev has compared it with max_mtu
}

// Interrupts.

int set_up_interrupt(rte_eth_dev* dev) {
  if (dev->data->dev_conf.intr_conf.rxq == 0) return 0;
  Device& device = device_of(dev);
  rte_intr_handle* const handle = device.interrupt;
  if (rte_intr_vec_list_alloc(handle, "udp", 1) != 0 || rte_intr_nb_efd_set(handle, 1) != 0 ||
      rte_intr_efds_index_set(handle, 0, device.port->interrupt_fd()) != 0 ||
      rte_intr_vec_list_index_set(handle, 0, RTE_INTR_VEC_RXTX_OFFSET) != 0) {
    UDP_LOG(ERR, "%s: no RX interrupt", name_of(dev));
    return -ENOMEM;
  }
  return 0;
}

void take_down_interrupt(const Device& device) {
  rte_intr_nb_efd_set(device.interrupt, 0);
  rte_intr_vec_list_free(device.interrupt);
}

int enable_interrupt(rte_eth_dev* dev, uint16_t /*queue*/) {
  if (dev->data->dev_conf.intr_conf.rxq == 0) return -ENOTSUP;
  device_of(dev).port->enable_interrupt();
  return 0;
}

int disable_interrupt(rte_eth_dev* dev, uint16_t /*queue*/) {
  device_of(dev).port->disable_interrupt();
  return 0;
}

// Life.

int start_device(rte_eth_dev* dev) {
  if (const int rc = fit_frames(dev, dev->data->mtu); rc != 0) return rc;
  if (const int rc = set_up_interrupt(dev); rc != 0) return rc;
  device_of(dev).port->discard_received();
  return 0;
}

int stop_device(rte_eth_dev* dev) {
  Device& device = device_of(dev);
  device.port->disable_interrupt();
  take_down_interrupt(device);
  device.rx.drop();
  dev->data->dev_started = 0;
  return 0;
}

int close_device(rte_eth_dev* dev) {
  if (rte_eal_process_type() != RTE_PROC_PRIMARY) return 0;
  Device* const device = &device_of(dev);
  device->rx.drop();
  rte_intr_instance_free(device->interrupt);
  delete device;
  return 0;
}

int update_link(rte_eth_dev* dev, int /*wait*/) {
  const SocketPort& port = *device_of(dev).port;
  const uint64_t speed = port.netdev().speed_mbps;
  rte_eth_link link{};
  link.link_duplex = RTE_ETH_LINK_FULL_DUPLEX;
  link.link_autoneg = RTE_ETH_LINK_FIXED;
  link.link_speed = speed == 0 ? RTE_ETH_SPEED_NUM_UNKNOWN : static_cast<uint32_t>(speed);
  link.link_status = port.link_up() ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN;
  return rte_eth_linkstatus_set(dev, &link);
}

// Filters: a socket gets what is for its address, and nothing else.

int accept(rte_eth_dev* /*dev*/) { return 0; }
int refuse(rte_eth_dev* /*dev*/) { return -ENOTSUP; }
int set_multicast_list(rte_eth_dev* /*dev*/, rte_ether_addr* /*list*/, uint32_t /*count*/) { return 0; }

constexpr eth_dev_ops make_device_ops() {
  eth_dev_ops ops{};
  ops.dev_configure = configure;
  ops.dev_start = start_device;
  ops.dev_stop = stop_device;
  ops.dev_close = close_device;
  ops.dev_infos_get = get_info;
  ops.link_update = update_link;
  ops.mtu_set = set_mtu;
  ops.rx_queue_setup = set_up_rx_queue;
  ops.rx_queue_release = release_rx_queue;
  ops.tx_queue_setup = set_up_tx_queue;
  ops.tx_queue_release = release_tx_queue;
  ops.rx_burst_mode_get = get_rx_mode;
  ops.tx_burst_mode_get = get_tx_mode;
  ops.rx_queue_intr_enable = enable_interrupt;
  ops.rx_queue_intr_disable = disable_interrupt;
  ops.promiscuous_enable = refuse;
  ops.promiscuous_disable = accept;
  ops.allmulticast_enable = accept;
  ops.allmulticast_disable = refuse;
  ops.set_mc_addr_list = set_multicast_list;
  ops.stats_get = get_stats;
  ops.stats_reset = reset_stats;
  ops.xstats_get = get_xstats;
  ops.xstats_get_names = get_xstats_names;
  ops.xstats_reset = reset_stats;
  return ops;
}

}  // namespace

constinit const eth_dev_ops device_ops = make_device_ops();

uint16_t rx_burst(void* queue, rte_mbuf** mbufs, uint16_t max) {
  auto& device = *static_cast<Device*>(queue);
  return device.port->receive(device.rx, mbufs, max);
}

uint16_t tx_burst(void* queue, rte_mbuf** mbufs, uint16_t count) {
  return static_cast<Device*>(queue)->port->send(mbufs, count);
}

int remove_device(rte_eth_dev* dev) {
  if (dev->data->dev_started != 0) rte_eth_dev_stop(dev->data->port_id);
  return rte_eth_dev_close(dev->data->port_id);
}

}  // namespace uroce::udp
