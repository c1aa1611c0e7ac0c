// One port of a card: what an ethdev stands for.
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

/// Ethernet header and one VLAN tag: what a frame has more than the MTU says. The FCS is the MAC's.
inline constexpr uint32_t kFrameOverhead = RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN;

/// A timestamp on its way from a burst to rte_eth_timesync_read_*: the last one, once.
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

/// Queues of an interface that belong to one of its ports.
struct Share {
  uint32_t first = 0, count = 0;
};

/// Interrupts of the RX queues: event queues of the card, and the descriptors that EAL waits for.
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

struct Port {
  std::shared_ptr<CardDevice> card;
  const InterfaceDescription* interface = nullptr;
  unsigned number = 0;  // within the interface
  rte_eth_dev* dev = nullptr;
  Share tx, rx, completion, event;
  std::vector<uint16_t> reta;  // queues of the ethdev
  uint64_t rss_types = 0;      // RTE_ETH_RSS_*; 0: off
  uint32_t log2_block_max = 0;
  bool timesync = false;
  StampSlot rx_timestamp, tx_timestamp;
  RxInterrupts interrupts;
  rte_intr_handle* own_interrupt_handle = nullptr;
  Counters<kRxCounters> rx_retired;  // of queues that were released
  Counters<kTxCounters> tx_retired;

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

inline Port& port_of(const rte_eth_dev* dev) { return **static_cast<Port**>(dev->data->dev_private); }

/// Everything that an ethdev can be asked for: ops.cc.
extern const eth_dev_ops port_ops;

/// Calls `f(rte_eth_dev&)` for each of this driver's ethdevs, whoever owns them.
template <typename F>
void for_each_port(F f) {
  for (uint16_t id = 0; id < RTE_MAX_ETHPORTS; ++id) {
    if (rte_eth_dev_is_valid_port(id) != 0 && rte_eth_devices[id].dev_ops == &port_ops) f(rte_eth_devices[id]);
  }
}

/// All bursts of the ethdev return nothing from now on.
void stop_bursts(rte_eth_dev& dev);

// ---- lifecycle.cc
/// The burst functions that the queues' offloads need. For a started port too.
void choose_bursts(Port& port);
int configure_port(rte_eth_dev* dev);
int start_port(rte_eth_dev* dev);
int stop_port(rte_eth_dev* dev);
int close_port(rte_eth_dev* dev);
int start_one_rx_queue(rte_eth_dev* dev, uint16_t queue);
int stop_one_rx_queue(rte_eth_dev* dev, uint16_t queue);
int start_one_tx_queue(rte_eth_dev* dev, uint16_t queue);
int stop_one_tx_queue(rte_eth_dev* dev, uint16_t queue);
/// Frames of this MTU are let through from now on. -EINVAL when the buffers of a started port are too small for them.
int set_mtu(rte_eth_dev* dev, uint16_t mtu);

// ---- queue_setup.cc
int setup_rx_queue(rte_eth_dev* dev, uint16_t queue, uint16_t descriptors, unsigned socket, const rte_eth_rxconf* conf,
                   rte_mempool* pool);
int setup_tx_queue(rte_eth_dev* dev, uint16_t queue, uint16_t descriptors, unsigned socket, const rte_eth_txconf* conf);
void release_rx_queue(rte_eth_dev* dev, uint16_t queue);
void release_tx_queue(rte_eth_dev* dev, uint16_t queue);
/// Frames up to the MTU, into buffers of the queue's pool.
int fit_buffers(const Port& port, RxQueue& queue);

// ---- rss.cc
int update_reta(rte_eth_dev* dev, rte_eth_rss_reta_entry64* entries, uint16_t size);
int query_reta(rte_eth_dev* dev, rte_eth_rss_reta_entry64* entries, uint16_t size);
int update_rss(rte_eth_dev* dev, rte_eth_rss_conf* conf);
int get_rss(rte_eth_dev* dev, rte_eth_rss_conf* conf);
/// The default table and the types that the configuration asks for.
int configure_rss(Port& port);
void write_rss(Port& port);
inline constexpr uint64_t kRssTypes = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_FRAG_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_TCP |
                                      RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV4_OTHER;
inline constexpr size_t kRssKeyBytes = 40;

// ---- statistics.cc
int get_stats(rte_eth_dev* dev, rte_eth_stats* stats);
int reset_stats(rte_eth_dev* dev);
int get_xstats(rte_eth_dev* dev, rte_eth_xstat* values, unsigned n);
int get_xstats_names(rte_eth_dev* dev, rte_eth_xstat_name* names, unsigned n);
void retire(Counters<kRxCounters>& total, const Counters<kRxCounters>& counters);
void retire(Counters<kTxCounters>& total, const Counters<kTxCounters>& counters);

// ---- interrupts.cc
int start_interrupts(Port& port);
void stop_interrupts(Port& port);
/// The card's event queue for an RX queue.
uint32_t event_queue_of(const Port& port, uint16_t rx_queue);
int enable_rx_interrupt(rte_eth_dev* dev, uint16_t queue);
int disable_rx_interrupt(rte_eth_dev* dev, uint16_t queue);

// ---- timesync.cc
int enable_timesync(rte_eth_dev* dev);
int disable_timesync(rte_eth_dev* dev);
int read_rx_timestamp(rte_eth_dev* dev, timespec* out, uint32_t flags);
int read_tx_timestamp(rte_eth_dev* dev, timespec* out);
int adjust_time(rte_eth_dev* dev, int64_t nanoseconds);
int read_time(rte_eth_dev* dev, timespec* out);
int write_time(rte_eth_dev* dev, const timespec* in);
int read_clock(rte_eth_dev* dev, uint64_t* out);

// ---- probe.cc: an ethdev for every port of a card
struct PortNames {
  std::string device;  // the first ethdev's name; the others add _ifX_portY
  std::string wires;   // tells cards of the same name apart, for MAC addresses
  std::vector<unsigned> wire_ends;
  const rte_ether_addr* mac = nullptr;  // of the first; the others count up
};
int create_ports(const std::shared_ptr<CardDevice>& card, rte_device* device, const PortNames& names);
int remove_ports(const rte_device* device);

}  // namespace mqnic::ethdev
