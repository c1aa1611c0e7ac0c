// A station as an ethdev: what DPDK asks of a port.
#pragma once

#include "pmd/shmlan/dpdk_driver.h"
#include "pmd/shmlan/station.h"

namespace uroce::shmlan {

/// What belongs to one ethdev, which owns it until it is closed. Its two queues are parts of it.
struct Device {
  explicit Device(std::unique_ptr<Station> of) : station(std::move(of)) {}

  std::unique_ptr<Station> station;
  RxBuffers rx;
  uint64_t rx_offloads = 0;  // of the queue and the port together
  rte_intr_handle* interrupt = nullptr;
  StationCounters stats_base;  // as the statistics were when they were reset
  segment::SegmentCounters xstats_base;
};

inline Device& device_of(const rte_eth_dev* dev) { return **static_cast<Device**>(dev->data->dev_private); }

extern const eth_dev_ops device_ops;

uint16_t rx_burst(void* queue, rte_mbuf** mbufs, uint16_t max);
uint32_t rx_queue_count(void* queue);
uint16_t tx_burst(void* queue, rte_mbuf** mbufs, uint16_t count);

/// Stops the port if it runs, and closes it.
int remove_device(rte_eth_dev* dev);

}  // namespace uroce::shmlan
