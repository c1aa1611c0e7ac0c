// A port over sockets as an ethdev: what DPDK asks of it.
#pragma once

#include "pmd/udp/dpdk_driver.h"
#include "pmd/udp/socket_port.h"

namespace uroce::udp {

/// What belongs to one ethdev, which owns it until it is closed. Its two queues are parts of it.
struct Device {
  explicit Device(std::unique_ptr<SocketPort> of) : port(std::move(of)) {}

  std::unique_ptr<SocketPort> port;
  RxBuffers rx;
  rte_intr_handle* interrupt = nullptr;
  PortCounters base;  // as the statistics were when they were reset
};

inline Device& device_of(const rte_eth_dev* dev) { return **static_cast<Device**>(dev->data->dev_private); }

extern const eth_dev_ops device_ops;

uint16_t rx_burst(void* queue, rte_mbuf** mbufs, uint16_t max);
uint16_t tx_burst(void* queue, rte_mbuf** mbufs, uint16_t count);

/// Stops the port if it runs, and closes it.
int remove_device(rte_eth_dev* dev);

}  // namespace uroce::udp
