#include "pmd/ethdev/held_packets.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "pmd/ethdev/card_wait.h"
#include "pmd/ethdev/log.h"
#include "pmd/ethdev/port.h"
#include "pmd/ethdev/tx_burst.h"
#include "pmd/hw/control.h"
#include "pmd/hw/queue.h"
#include "pmd/hw/registers.h"

namespace mqnic::ethdev {

namespace {

/// How many packets the card has taken from the ring and not completed.
uint32_t inside(Port& port, const TxQueue& queue) {
  const auto taken = static_cast<uint16_t>(ring_consumer(port.bus(), queue.place.ring_registers) - queue.consumer);
  return std::min<uint32_t>(taken, queue.producer - queue.consumer);
}

}  // namespace

void HeldPackets::put(unsigned interface, uint32_t hw_queue, uint16_t end, std::vector<rte_mbuf*> packets) {
  const std::lock_guard lock(mutex_);
  by_queue_[{interface, hw_queue}] = {end, std::move(packets)};
}

std::vector<rte_mbuf*> HeldPackets::take(unsigned interface, uint32_t hw_queue, uint16_t begin) {
  const std::lock_guard lock(mutex_);
  const auto found = by_queue_.find({interface, hw_queue});
  if (found == by_queue_.end()) return {};
  Held held = std::move(found->second);
  by_queue_.erase(found);
  if (held.end == begin) return std::move(held.packets);
  std::vector<rte_mbuf*>& forgotten = forgotten_[{interface, hw_queue}];
  forgotten.insert(forgotten.end(), held.packets.begin(), held.packets.end());
  return {};
}

size_t HeldPackets::count() const {
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const auto& [queue, held] : by_queue_) count += held.packets.size();
  for (const auto& [queue, packets] : forgotten_) count += packets.size();
  return count;
}

bool HeldPackets::holds(unsigned interface, uint32_t hw_queue) const {
  const std::lock_guard lock(mutex_);
  return by_queue_.contains({interface, hw_queue});
}

std::vector<rte_mbuf*> HeldPackets::remove(Key first, Key end) {
  const std::lock_guard lock(mutex_);
  std::vector<rte_mbuf*> all;
  const auto held_end = by_queue_.lower_bound(end);
  for (auto at = by_queue_.lower_bound(first); at != held_end; at = by_queue_.erase(at)) {
    all.insert(all.end(), at->second.packets.begin(), at->second.packets.end());
  }
  const auto forgotten_end = forgotten_.lower_bound(end);
  for (auto at = forgotten_.lower_bound(first); at != forgotten_end; at = forgotten_.erase(at)) {
    all.insert(all.end(), at->second.begin(), at->second.end());
  }
  return all;
}

void HeldPackets::give_back() {
  for (rte_mbuf* packet : remove({0, 0}, {UINT_MAX, UINT32_MAX})) rte_pktmbuf_free(packet);
}

void HeldPackets::give_back(unsigned interface, uint32_t first, uint32_t count) {
  for (rte_mbuf* packet : remove({interface, first}, {interface, first + count})) rte_pktmbuf_free(packet);
}

size_t HeldPackets::abandon(unsigned interface, uint32_t first, uint32_t count) {
  return remove({interface, first}, {interface, first + count}).size();
}

void let_out(Port& port, const std::vector<TxQueue*>& queues) {
  if (port.card->check_removed()) return;
  const auto all_out = [&] {
    return std::all_of(queues.begin(), queues.end(), [&](TxQueue* queue) {
      reap(*queue, queue->entries);
      return inside(port, *queue) == 0;
    });
  };
  if (all_out()) return;
  const PauseSetup pauses = pause_setup(port.bus(), port.hw());
  if (pauses.obey) set_pause(port.bus(), port.hw(), {pauses.send, false, pauses.watermark_bytes});
  enable_port_tx(port.bus(), port.hw(), true);
  wait_for_card(port, kStubbornMs, all_out);
  if (pauses.obey) set_pause(port.bus(), port.hw(), pauses);
}

void take_back(Port& port, TxQueue& queue) {
  reap(queue, queue.entries);  // what left while others were waited for
  const uint32_t held = port.card->check_removed() ? 0 : inside(port, queue);
  if (held != 0) {
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < held; ++i) packets.push_back(queue.mbufs[queue.consumer++ & queue.mask]);
    MQNIC_LOG(WARNING,
              "%s: TX queue %u was stopped with %u packets in the card that do not leave: it keeps their buffers",
              port.name(), queue.place.number, held);
    port.card->held().put(port.interface->number, queue.place.hw_queue, static_cast<uint16_t>(queue.consumer),
                          std::move(packets));
  }
  free_tx_buffers(queue);
}

int begin_where_card_is(Port& port, TxQueue& queue) {
  const uint16_t at = ring_consumer(port.bus(), queue.place.ring_registers);
  const std::vector<rte_mbuf*> held = port.card->held().take(port.interface->number, queue.place.hw_queue, at);
  // Without a vacant entry nothing could be sent, and a lost completion is only noticed by a later one.
  if (held.size() >= queue.entries) {
    MQNIC_LOG(ERR, "%s: TX queue %u: the card still has %zu packets of it: %u descriptors are too few", port.name(),
              queue.place.number, held.size(), queue.entries);
    port.card->held().put(port.interface->number, queue.place.hw_queue, at, held);
    return -EBUSY;
  }
  queue.producer = queue.first = at;
  queue.inherited = static_cast<uint32_t>(held.size());
  queue.consumer = at - static_cast<uint32_t>(held.size());
  // Packets of a former life may be from any pool, and in several pieces.
  queue.fast_free = held.empty() && (queue.offloads & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE) != 0;
  for (uint32_t i = 0; i < held.size(); ++i) queue.mbufs[(queue.consumer + i) & queue.mask] = held[i];
  return 0;
}

}  // namespace mqnic::ethdev
