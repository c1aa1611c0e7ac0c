#include "pmd/vdev/ops.h"

#include <cerrno>
#include <cstdio>

#include "pmd/vdev/driver.h"
#include "pmd/vdev/log.h"
#include "pmd/vdev/statistics.h"

namespace uroce::vdev {
namespace {

constexpr uint16_t kBurst = 32;

const char* name_of(const rte_eth_dev* dev) { return dev->data->name; }

int get_info(rte_eth_dev* dev, rte_eth_dev_info* info) {
  const Driver& driver = device_of(dev).driver;
  info->max_mtu = device_of(dev).port->max_mtu();
  info->max_rx_pktlen = info->max_mtu + kFrameOverhead;
  info->min_mtu = RTE_ETHER_MIN_MTU;
  info->min_rx_bufsize = RTE_ETHER_MIN_LEN;
  info->max_rx_queues = info->max_tx_queues = 1;
  info->max_mac_addrs = 1;
  info->rx_offload_capa = info->rx_queue_offload_capa = driver.rx_offloads;
  info->tx_offload_capa = info->tx_queue_offload_capa = driver.tx_offloads;
  // There are no descriptors: a number that applications ask for changes nothing.
  info->default_rxportconf = info->default_txportconf = {kBurst, driver.usual_ring, 1};
  return 0;
}

int configure(rte_eth_dev* dev) {
  if (dev->data->dev_conf.intr_conf.lsc == 0) return 0;
  const Driver& driver = device_of(dev).driver;
  VDEV_LOG(ERR, driver, "%s: %s", name_of(dev), driver.no_link_interrupt);
  return -ENOTSUP;
}

// Queues.

int set_up_rx_queue(rte_eth_dev* dev, uint16_t queue, uint16_t /*descriptors*/, unsigned /*socket*/,
                    const rte_eth_rxconf* conf, rte_mempool* pool) {
  Device& device = device_of(dev);
  if (pool == nullptr) {
    VDEV_LOG(ERR, device.driver, "%s: one buffer pool is needed", name_of(dev));
    return -EINVAL;
  }
  device.rx.pool = pool;
  device.rx.port_id = dev->data->port_id;
  device.rx_offloads = conf->offloads | dev->data->dev_conf.rxmode.offloads;
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

int get_rx_mode(rte_eth_dev* dev, uint16_t /*queue*/, rte_eth_burst_mode* mode) {
  std::snprintf(mode->info, sizeof mode->info, "%s", device_of(dev).driver.rx_mode);
  return 0;
}

int get_tx_mode(rte_eth_dev* dev, uint16_t /*queue*/, rte_eth_burst_mode* mode) {
  std::snprintf(mode->info, sizeof mode->info, "%s", device_of(dev).driver.tx_mode);
  return 0;
}

// Sizes.

/// Decides whether frames may be in several mbufs.
int fit_frames(rte_eth_dev* dev, uint32_t mtu) {
  Device& device = device_of(dev);
  const uint32_t frame_bytes = mtu + kFrameOverhead;
  if (device.rx.pool != nullptr) {
    const uint32_t room = rte_pktmbuf_data_room_size(device.rx.pool) - RTE_PKTMBUF_HEADROOM;
    const bool scatter = (device.rx_offloads & RTE_ETH_RX_OFFLOAD_SCATTER) != 0;
    if (frame_bytes > room && !scatter) {
      const bool could = (device.driver.rx_offloads & RTE_ETH_RX_OFFLOAD_SCATTER) != 0;
      VDEV_LOG(ERR, device.driver, "%s: frames of MTU %u do not fit buffers of %u bytes: %slarger ones are needed",
               name_of(dev), mtu, room, could ? "offload SCATTER or " : "");
      return -EINVAL;
    }
    device.rx.scatter = scatter;
    dev->data->scattered_rx = frame_bytes > room ? 1 : 0;
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
  if (rte_intr_vec_list_alloc(handle, "vdev", 1) != 0 || rte_intr_nb_efd_set(handle, 1) != 0 ||
      rte_intr_efds_index_set(handle, 0, device.port->interrupt_fd()) != 0 ||
      rte_intr_vec_list_index_set(handle, 0, RTE_INTR_VEC_RXTX_OFFSET) != 0) {
    VDEV_LOG(ERR, device.driver, "%s: no RX interrupt", name_of(dev));
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
  const Link now = device_of(dev).port->link();
  rte_eth_link link{};
  link.link_duplex = RTE_ETH_LINK_FULL_DUPLEX;
  link.link_autoneg = RTE_ETH_LINK_FIXED;
  link.link_speed = now.mbps == 0 ? RTE_ETH_SPEED_NUM_UNKNOWN : now.mbps;
  link.link_status = now.up ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN;
  return rte_eth_linkstatus_set(dev, &link);
}

// Filters: a port gets what is for it, or for everybody, and nothing else.

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

}  // namespace uroce::vdev
