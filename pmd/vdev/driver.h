// A driver of software ports, and one of its ports as an ethdev (port.h has what is special about a port):
//
//     constexpr Driver kDriver{.name = "net_udp", ...};
//     constinit rte_vdev_driver udp_vdev_driver = make_vdev_driver<kDriver>();
//     RTE_PMD_REGISTER_VDEV(net_udp, udp_vdev_driver);
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "pmd/vdev/dpdk_driver.h"
#include "pmd/vdev/port.h"
#include "pmd/vdev/rx_buffers.h"

namespace uroce::vdev {

/// The functions that move packets.
struct Bursts {
  eth_rx_burst_t rx;
  eth_tx_burst_t tx;
  eth_rx_queue_count_t waiting;  // nullptr: unknown
};

struct Driver {
  const char* name;     // "net_udp"
  const int& log_type;  // of RTE_LOG_REGISTER
  /// Makes a port of the text behind the device's name, which may be nullptr. Returns 0, or a negative errno with one
  /// line in `error`.
  int (*open)(const char* device, const char* arguments, std::unique_ptr<SoftwarePort>& out, std::string& error);
  Bursts bursts;
  uint64_t rx_offloads;
  uint64_t tx_offloads;
  uint16_t usual_ring;  // of descriptors, which there are none of
  const char* rx_mode;  // how packets are received, in words
  const char* tx_mode;
  const char* no_link_interrupt;  // what somebody is told who wants one
};

/// What belongs to one ethdev, which owns it until it is closed. Its two queues are parts of it.
struct Device {
  Device(const Driver& its_driver, std::unique_ptr<SoftwarePort> its_port)
      : driver(its_driver), port(std::move(its_port)) {}

  const Driver& driver;
  std::unique_ptr<SoftwarePort> port;
  RxBuffers rx;
  uint64_t rx_offloads = 0;  // of the queue and the port together
  rte_intr_handle* interrupt = nullptr;
  std::mutex base_mutex;  // a telemetry thread may reset them while another one reads
  Statistics base;        // as they were when they were reset
};

inline Device& device_of(const rte_eth_dev* dev) { return **static_cast<Device**>(dev->data->dev_private); }

int probe(const Driver& driver, rte_vdev_device* vdev);
int remove(rte_vdev_device* vdev);

/// Of ports that are all of class `P`, which is final.
template <typename P>
constexpr Bursts bursts_of() {
  Bursts bursts{};
  bursts.rx = [](void* queue, rte_mbuf** mbufs, uint16_t max) {
    auto& device = *static_cast<Device*>(queue);
    return static_cast<P&>(*device.port).receive(device.rx, mbufs, max);
  };
  bursts.tx = [](void* queue, rte_mbuf** mbufs, uint16_t count) {
    return static_cast<P&>(*static_cast<Device*>(queue)->port).send(mbufs, count);
  };
  if constexpr (requires(const P& port) { port.waiting(); })
    bursts.waiting = [](void* queue) { return static_cast<P&>(*static_cast<Device*>(queue)->port).waiting(); };
  return bursts;
}

/// For EAL. To be kept constant: its registration may run before other initialisers.
template <const Driver& kDriver>
constexpr rte_vdev_driver make_vdev_driver() {
  rte_vdev_driver driver{};
  driver.probe = [](rte_vdev_device* vdev) { return probe(kDriver, vdev); };
  driver.remove = remove;
  return driver;
}

}  // namespace uroce::vdev
