// One port of a card, which is what an ethdev represents.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pmd/ethdev/card_device.h"
#include "pmd/ethdev/dpdk_driver.h"
#include "pmd/ethdev/queues.h"
#include "pmd/hw/description.h"
#include "pmd/hw/registers.h"

namespace mqnic::ethdev {

/// Ethernet header and one VLAN tag, which a frame has beyond the MTU. The MAC adds and removes the FCS.
inline constexpr uint32_t kFrameOverhead = RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN;

/// Passes the latest timestamp from a burst to rte_eth_timesync_read_*, which can read it once.
class StampSlot {
 public:
  void put(uint16_t seconds, uint32_t nanoseconds) {
    word_.store(kValid | uint64_t{seconds} << 32 | nanoseconds, std::memory_order_release);
  }
  bool take(uint16_t& seconds, uint32_t& nanoseconds) {
    const uint64_t word = word_.exchange(0, std::memory_order_acquire);
    seconds = static_cast<uint16_t>(word >> 32);
    nanoseconds = static_cast<uint32_t>(word);
    return (word & kValid) != 0;
  }

 private:
  static constexpr uint64_t kValid = uint64_t{1} << 63;
  std::atomic<uint64_t> word_{0};
};

/// The queues of an interface that belong to one of its ports.
struct Share {
  uint32_t first = 0, count = 0;
};

/// Interrupts of the RX queues: event queues of the card, and the descriptors for which EAL waits.
struct RxInterrupts {
  const rte_memzone* zone = nullptr;
  struct EventQueue {
    const Event* events = nullptr;
    uint32_t entries = 0;
    uint32_t consumer = 0;
    uint32_t registers = 0;
    uint32_t vector = 0;
    int event_fd = -1;
    Doorbell bell;
  };
  std::vector<EventQueue> queues;
  std::mutex mutex;  // threads of several RX queues may share an event queue
};

/// Counters of queues that were released.
struct RetiredCounters {
  Counters<kRxCounters> rx;
  Counters<kTxCounters> tx;
};

struct Port {
  std::shared_ptr<CardDevice> card;
  const InterfaceDescription* interface = nullptr;
  unsigned number = 0;  // within the interface
  rte_eth_dev* dev = nullptr;
  rte_ether_addr first_mac{};  // after probing
  Share tx, rx, completion, event;
  std::vector<uint16_t> reta;  // queues of the ethdev
  uint64_t rss_types = 0;      // RTE_ETH_RSS_*; 0: off
  uint32_t log2_block_max = 0;
  bool timesync = false;
  StampSlot rx_timestamp, tx_timestamp;
  RxInterrupts interrupts;
  rte_intr_handle* own_interrupt_handle = nullptr;
  RetiredCounters retired;

  const PortDescription& hw() const { return interface->ports[number]; }
  const SchedulerDescription& scheduler() const {
    return interface->schedulers[number < interface->schedulers.size() ? number : 0];
  }
  GuardedBus& bus() const { return card->bus(); }
  const char* name() const { return dev->data->name; }
  RxQueue* rx_queue(unsigned i) const { return static_cast<RxQueue*>(dev->data->rx_queues[i]); }
  TxQueue* tx_queue(unsigned i) const { return static_cast<TxQueue*>(dev->data->tx_queues[i]); }
  uint32_t largest_frame() const { return std::min(interface->max_tx_frame_bytes, interface->max_rx_frame_bytes); }
};

/// Counted from the end, so that a TX queue keeps its completion queue whatever the number of RX queues is: late
/// completions go there. An RX queue can get the completion queue of a TX queue that is not configured, unless the card
/// still has packets of that one (configure_port).
inline uint32_t tx_completion_queue(const Port& port, uint32_t tx_queue) {
  return port.completion.first + port.completion.count - 1 - tx_queue;
}

inline Port& port_of(const rte_eth_dev* dev) { return **static_cast<Port**>(dev->data->dev_private); }

}  // namespace mqnic::ethdev
