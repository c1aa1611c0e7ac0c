// Configure, start, stop, close: the order of the steps in which the card is started and stopped.
#include "pmd/ethdev/lifecycle.h"

#include <rte_cycles.h>
#include <rte_malloc.h>
#include <rte_mbuf_dyn.h>

#include <algorithm>
#include <vector>

#include "pmd/ethdev/card_wait.h"
#include "pmd/ethdev/held_packets.h"
#include "pmd/ethdev/interrupts.h"
#include "pmd/ethdev/log.h"
#include "pmd/ethdev/ops.h"
#include "pmd/ethdev/port.h"
#include "pmd/ethdev/queue_setup.h"
#include "pmd/ethdev/rss.h"
#include "pmd/ethdev/rx_burst.h"
#include "pmd/ethdev/statistics.h"
#include "pmd/ethdev/timesync.h"
#include "pmd/ethdev/tx_burst.h"
#include "pmd/hw/control.h"
#include "pmd/hw/queue.h"

namespace mqnic::ethdev {

namespace {

constexpr unsigned kDrainMs = 5;  // for packets that were sent just before the stop

constexpr uint64_t kRxWork = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM |
                             RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_TIMESTAMP;

bool is_scatter(const Port& port) {
  for (unsigned q = 0; q < port.dev->data->nb_rx_queues; ++q) {
    if (port.rx_queue(q) != nullptr && port.rx_queue(q)->log2_block != 0) return true;
  }
  return false;
}

/// To be called after rings were disabled: waits until the card is not busy with them.
void settle(Port& port, const std::vector<const QueuePlace*>& places) {
  if (places.empty() || port.card->check_removed()) return;
  if (port.bus().needs_run()) {
    port.bus().run();
  } else {
    rte_delay_us_sleep(kSettleMs * 1000);
  }
  const auto active = [&](const QueuePlace* place) { return is_ring_active(port.bus(), place->ring_registers); };
  wait_for_card(port, kStubbornMs, [&] { return std::none_of(places.begin(), places.end(), active); });
  for (const QueuePlace* place : places) {
    if (port.card->is_removed() || !active(place)) continue;
    MQNIC_LOG(ERR, "%s: queue %u of interface %u is still active %u ms after it was disabled", port.name(),
              place->hw_queue, port.interface->number, kStubbornMs);
  }
}

void stop_completions(Port& port, const QueuePlace& place) {
  if (!port.card->is_removed()) disable_completion_queue(port.bus(), place.completion_registers);
}

/// Prepares what depends on the port as a whole.
int prepare_rx_queue(Port& port, RxQueue& queue) {
  if (const int rc = fit_buffers(port, queue); rc != 0) return rc;
  queue.verified_flags = 0;
  if ((queue.offloads & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM) != 0) queue.verified_flags |= RTE_MBUF_F_RX_IP_CKSUM_MASK;
  if ((queue.offloads & (RTE_ETH_RX_OFFLOAD_UDP_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM)) != 0) {
    queue.verified_flags |= RTE_MBUF_F_RX_L4_CKSUM_MASK;
  }
  queue.timesync = port.timesync;
  queue.timestamps = (queue.offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP) != 0;
  if (queue.timestamps && rte_mbuf_dyn_rx_timestamp_register(&queue.timestamp_offset, &queue.timestamp_flag) != 0) {
    MQNIC_LOG(ERR, "%s: mbufs have no room for timestamps: %s", port.name(), rte_strerror(rte_errno));
    return -rte_errno;
  }
  return 0;
}

int start_rx(Port& port, RxQueue& queue) {
  int rc = prepare_rx_queue(port, queue);
  if (rc != 0) return rc;
  rc = start_rx_queue(port.bus(), queue, port.interface->number, event_queue_of(port, queue.place.number));
  if (rc != 0) {
    MQNIC_LOG(ERR, "%s: RX queue %u: pool %s has no buffers", port.name(), queue.place.number, queue.pool->name);
    return rc;
  }
  port.dev->data->rx_queue_state[queue.place.number] = RTE_ETH_QUEUE_STATE_STARTED;
  return 0;
}

int start_tx(Port& port, TxQueue& queue) {
  queue.timesync = port.timesync;
  if (const int rc = begin_where_card_is(port, queue); rc != 0) return rc;
  start_tx_queue(port.bus(), queue, port.interface->number);
  enable_channel(port.bus(), port.scheduler(), queue.place.hw_queue, true);
  port.dev->data->tx_queue_state[queue.place.number] = RTE_ETH_QUEUE_STATE_STARTED;
  return 0;
}

/// Gives packets that the card already has a moment to leave.
void drain(Port& port, const std::vector<TxQueue*>& queues) {
  wait_for_card(port, kDrainMs, [&] {
    return std::all_of(queues.begin(), queues.end(), [](TxQueue* queue) {
      reap(*queue, queue->entries);
      return queue->consumer == queue->producer;
    });
  });
}

int start_queues(Port& port) {
  for (unsigned q = 0; q < port.dev->data->nb_rx_queues; ++q) {
    RxQueue& queue = *port.rx_queue(q);
    if (queue.deferred_start) {
      if (const int rc = fit_buffers(port, queue); rc != 0) return rc;
    } else if (const int rc = start_rx(port, queue); rc != 0) {
      return rc;
    }
  }
  for (unsigned q = 0; q < port.dev->data->nb_tx_queues; ++q) {
    if (port.tx_queue(q)->deferred_start) continue;
    if (const int rc = start_tx(port, *port.tx_queue(q)); rc != 0) return rc;
  }
  return 0;
}

/// Stops the rings of these queues; packets that the card has taken from them leave, or stay with it.
void stop_rings(Port& port, const std::vector<TxQueue*>& sending, const std::vector<RxQueue*>& receiving) {
  std::vector<const QueuePlace*> places;
  drain(port, sending);
  for (TxQueue* queue : sending) {
    enable_channel(port.bus(), port.scheduler(), queue->place.hw_queue, false);
    enable_ring(port.bus(), queue->place.ring_registers, false);
    places.push_back(&queue->place);
  }
  for (RxQueue* queue : receiving) {
    enable_ring(port.bus(), queue->place.ring_registers, false);
    places.push_back(&queue->place);
  }
  settle(port, places);
  let_out(port, sending);
  for (const QueuePlace* place : places) stop_completions(port, *place);
  for (TxQueue* queue : sending) {
    take_back(port, *queue);
    queue->configured = false;
  }
  for (RxQueue* queue : receiving) {
    free_rx_buffers(*queue);
    queue->configured = false;
  }
}

void stop_queues(Port& port) {
  std::vector<TxQueue*> sending;
  std::vector<RxQueue*> receiving;
  rte_eth_dev_data& data = *port.dev->data;
  stop_bursts(*port.dev);
  for (unsigned q = 0; q < data.nb_tx_queues; ++q) {
    data.tx_queue_state[q] = RTE_ETH_QUEUE_STATE_STOPPED;
    if (TxQueue* queue = port.tx_queue(q); queue != nullptr && queue->configured) sending.push_back(queue);
  }
  for (unsigned q = 0; q < data.nb_rx_queues; ++q) {
    data.rx_queue_state[q] = RTE_ETH_QUEUE_STATE_STOPPED;
    if (RxQueue* queue = port.rx_queue(q); queue != nullptr && queue->configured) receiving.push_back(queue);
  }
  stop_rings(port, sending, receiving);
}

/// Checks that all queues of the configuration were set up.
int check_queues(const Port& port) {
  const rte_eth_dev_data& data = *port.dev->data;
  bool complete = true;
  for (unsigned q = 0; q < data.nb_rx_queues; ++q) complete &= port.rx_queue(q) != nullptr;
  for (unsigned q = 0; q < data.nb_tx_queues; ++q) complete &= port.tx_queue(q) != nullptr;
  if (complete) return 0;
  MQNIC_LOG(ERR, "%s: not all of its %u RX and %u TX queues are set up", port.name(), data.nb_rx_queues,
            data.nb_tx_queues);
  return -EINVAL;
}

uint32_t wanted_rx_frame(const Port& port) {
  // One byte more than the longest good frame: a longer frame is cut there, and can be recognised.
  return std::min(port.dev->data->mtu + kFrameOverhead + 1, port.interface->max_rx_frame_bytes);
}

bool other_port_started(const Port& port) {
  bool found = false;
  for_each_port([&](const rte_eth_dev& dev) {
    const Port& other = port_of(&dev);
    found |= &other != &port && dev.data->dev_started != 0 && other.interface == port.interface &&
             &other.scheduler() == &port.scheduler();
  });
  return found;
}

/// Packets that the card still has complete into the completion queues of TX queues that may no longer be configured:
/// no RX queue may get one of these.
int check_late_completions(const Port& port) {
  const rte_eth_dev_data& data = *port.dev->data;
  for (uint32_t q = data.nb_tx_queues; q < port.tx.count && q < port.completion.count; ++q) {
    if (port.completion.count - 1 - q >= data.nb_rx_queues) continue;
    if (!port.card->held().holds(port.interface->number, port.tx.first + q)) continue;
    MQNIC_LOG(ERR, "%s: the card still has packets of TX queue %u, whose completion queue an RX queue would get",
              port.name(), q);
    return -EBUSY;
  }
  return 0;
}

/// Deals with packets that the card has of a port that is closed; with `others` the card goes on.
void leave_held(Port& port, size_t others) {
  HeldPackets& held = port.card->held();
  const unsigned interface = port.interface->number;
  if (port.card->check_removed()) {
    held.give_back(interface, port.tx.first, port.tx.count);
  } else if (others != 0) {
    if (const size_t count = held.abandon(interface, port.tx.first, port.tx.count); count != 0) {
      MQNIC_LOG(WARNING, "%s: %zu buffers are never given back: the card may still read them", port.name(), count);
    }
  }
}

}  // namespace

void choose_bursts(Port& port) {
  const rte_eth_dev_data& data = *port.dev->data;
  bool offloads = port.timesync, blocks = false;
  for (unsigned q = 0; q < data.nb_rx_queues; ++q) {
    if (const RxQueue* queue = port.rx_queue(q)) offloads |= (queue->offloads & kRxWork) != 0;
  }
  for (unsigned q = 0; q < data.nb_tx_queues; ++q) {
    if (const TxQueue* queue = port.tx_queue(q)) blocks |= queue->log2_block != 0;
  }
  port.dev->data->scattered_rx = is_scatter(port) ? 1 : 0;
  port.dev->rx_pkt_burst = choose_rx_burst(is_scatter(port), offloads);
  port.dev->tx_pkt_burst = choose_tx_burst(blocks);
  port.dev->tx_pkt_prepare = prepare_tx;
  if (data.dev_started == 0) return;
  // ethdev copied the functions when the port was started, so the copy is updated. Functions with more offloads also
  // serve queues that need fewer.
  rte_eth_fp_ops[data.port_id].rx_pkt_burst = port.dev->rx_pkt_burst;
  rte_eth_fp_ops[data.port_id].tx_pkt_burst = port.dev->tx_pkt_burst;
}

void stop_bursts(rte_eth_dev& dev) {
  for (unsigned q = 0; q < dev.data->nb_rx_queues; ++q) {
    auto* queue = static_cast<RxQueue*>(dev.data->rx_queues[q]);
    if (queue != nullptr) queue->running.store(false, std::memory_order_release);
  }
  for (unsigned q = 0; q < dev.data->nb_tx_queues; ++q) {
    auto* queue = static_cast<TxQueue*>(dev.data->tx_queues[q]);
    if (queue != nullptr) queue->running.store(false, std::memory_order_release);
  }
}

int configure_port(rte_eth_dev* dev) {
  Port& port = port_of(dev);
  if (port.card->check_removed()) return -ENODEV;
  const uint32_t wanted = dev->data->nb_rx_queues + uint32_t{dev->data->nb_tx_queues};
  if (wanted > port.completion.count) {
    MQNIC_LOG(ERR, "%s: %u RX and TX queues need as many completion queues: the port has %u", port.name(), wanted,
              port.completion.count);
    return -EINVAL;
  }
  if (const int rc = check_late_completions(port); rc != 0) return rc;
  const rte_eth_conf& conf = dev->data->dev_conf;
  if (conf.intr_conf.lsc != 0) {
    MQNIC_LOG(ERR, "%s: the card has no interrupt for its link", port.name());
    return -ENOTSUP;
  }
  return configure_rss(port);
}

int start_port(rte_eth_dev* dev) {
  Port& port = port_of(dev);
  if (port.card->check_removed()) return -ENODEV;
  if (const int rc = check_queues(port); rc != 0) return rc;
  TimeOfDay now;
  port.card->read_clock(now);
  choose_bursts(port);
  int rc = start_interrupts(port);
  if (rc == 0) rc = start_queues(port);
  if (rc != 0) {
    stop_queues(port);
    stop_interrupts(port);
    return rc;
  }
  set_tx_frame_bytes(port.bus(), *port.interface, port.interface->max_tx_frame_bytes);
  port.card->want_rx_frames(port.interface->number, port.number, wanted_rx_frame(port));
  write_rss(port);
  enable_port_tx(port.bus(), port.hw(), true);
  enable_scheduler(port.bus(), port.scheduler(), true);
  enable_port_rx(port.bus(), port.hw(), true);
  if (port.card->check_removed()) {
    stop_queues(port);
    stop_interrupts(port);
    return -ENODEV;
  }
  return 0;
}

int stop_port(rte_eth_dev* dev) {
  Port& port = port_of(dev);
  port.card->check_removed();
  enable_port_rx(port.bus(), port.hw(), false);
  stop_queues(port);
  if (!other_port_started(port)) enable_scheduler(port.bus(), port.scheduler(), false);
  enable_port_tx(port.bus(), port.hw(), false);
  stop_interrupts(port);
  port.card->want_rx_frames(port.interface->number, port.number, 0);
  dev->data->dev_started = 0;
  dev->data->dev_link = {};
  return 0;
}

int close_port(rte_eth_dev* dev) {
  if (rte_eal_process_type() != RTE_PROC_PRIMARY) return 0;
  Port* port = &port_of(dev);
  if (dev->data->dev_started != 0) stop_port(dev);
  for (uint16_t q = 0; q < dev->data->nb_rx_queues; ++q) release_rx_queue(dev, q);
  for (uint16_t q = 0; q < dev->data->nb_tx_queues; ++q) release_tx_queue(dev, q);
  leave_held(*port, port->card->remove_port(dev->data->port_id));
  if (port->own_interrupt_handle != nullptr) rte_intr_instance_free(port->own_interrupt_handle);
  delete port;
  return 0;
}

int reset_port(rte_eth_dev* dev) {
  Port& port = port_of(dev);
  if (port.card->check_removed()) return -ENODEV;
  for (uint16_t q = 0; q < dev->data->nb_rx_queues; ++q) release_rx_queue(dev, q);
  for (uint16_t q = 0; q < dev->data->nb_tx_queues; ++q) release_tx_queue(dev, q);
  disable_timesync(dev);
  if ((port.hw().features & port_control::kFeatureLfc) != 0) {
    set_pause(port.bus(), port.hw(), {false, false, port.interface->rx_fifo_bytes / 2});
  }
  forget_rss(port);
  rte_ether_addr_copy(&port.first_mac, dev->data->mac_addrs);
  dev->data->mtu = RTE_ETHER_MTU;
  return reset_stats(dev);
}

int start_one_rx_queue(rte_eth_dev* dev, uint16_t number) {
  Port& port = port_of(dev);
  if (port.card->check_removed()) return -ENODEV;
  RxQueue& queue = *port.rx_queue(number);
  if (queue.configured) return 0;
  choose_bursts(port);  // the queue may have been set up again
  const int rc = start_rx(port, queue);
  if (rc != 0) stop_one_rx_queue(dev, number);
  return rc;
}

int stop_one_rx_queue(rte_eth_dev* dev, uint16_t number) {
  Port& port = port_of(dev);
  RxQueue& queue = *port.rx_queue(number);
  queue.running.store(false, std::memory_order_release);
  dev->data->rx_queue_state[number] = RTE_ETH_QUEUE_STATE_STOPPED;
  if (queue.configured) stop_rings(port, {}, {&queue});
  return 0;
}

int start_one_tx_queue(rte_eth_dev* dev, uint16_t number) {
  Port& port = port_of(dev);
  if (port.card->check_removed()) return -ENODEV;
  if (port.tx_queue(number)->configured) return 0;
  choose_bursts(port);
  return start_tx(port, *port.tx_queue(number));
}

int stop_one_tx_queue(rte_eth_dev* dev, uint16_t number) {
  Port& port = port_of(dev);
  TxQueue& queue = *port.tx_queue(number);
  queue.running.store(false, std::memory_order_release);
  dev->data->tx_queue_state[number] = RTE_ETH_QUEUE_STATE_STOPPED;
  if (queue.configured) stop_rings(port, {&queue}, {});
  return 0;
}

int set_mtu(rte_eth_dev* dev, uint16_t mtu) {
  Port& port = port_of(dev);
  if (mtu + kFrameOverhead > port.largest_frame()) return -EINVAL;
  if (dev->data->dev_started == 0) return 0;  // it takes effect at start
  const uint16_t before = dev->data->mtu;
  int rc = 0;
  dev->data->mtu = mtu;  // fit_buffers reads it
  for (unsigned q = 0; rc == 0 && q < dev->data->nb_rx_queues; ++q) {
    const RxQueue& queue = *port.rx_queue(q);
    const uint32_t room = uint32_t{queue.room} * std::max(queue.pieces, 1u);
    if (mtu + kFrameOverhead > room) {
      MQNIC_LOG(ERR, "%s: MTU %u does not fit the buffers of RX queue %u as it was started: stop the port first",
                port.name(), mtu, q);
      rc = -EBUSY;
    }
  }
  if (rc == 0) {
    for (unsigned q = 0; q < dev->data->nb_rx_queues; ++q) {
      RxQueue& queue = *port.rx_queue(q);
      queue.limit = std::min(mtu + kFrameOverhead, port.interface->max_rx_frame_bytes);
      queue.longest = queue.limit;
    }
    port.card->want_rx_frames(port.interface->number, port.number, wanted_rx_frame(port));
  } else {
    dev->data->mtu = before;
  }
  return rc;
}

}  // namespace mqnic::ethdev
