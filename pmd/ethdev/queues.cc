// What the card needs of a queue: memory, pointers, enabling.
#include "pmd/ethdev/queues.h"

#include <rte_ethdev.h>
#include <rte_malloc.h>

#include <bit>
#include <cstring>

#include "pmd/ethdev/log.h"
#include "pmd/ethdev/rx_burst.h"
#include "pmd/hw/queue.h"
#include "pmd/hw/registers.h"

namespace mqnic::ethdev {

namespace {

uint32_t log2_of(uint32_t entries) { return static_cast<uint32_t>(std::countr_zero(entries)); }

size_t round_up(size_t bytes) { return (bytes + kRingBaseAlignment - 1) / kRingBaseAlignment * kRingBaseAlignment; }

/// An empty completion queue, and the low word of a completion for descriptor 0.
template <typename Queue>
void expect_completions(Queue& queue) {
  queue.completed = queue.acknowledged = 0;
  queue.expected = queue.place.hw_queue & 0xffff;
}

/// A doorbell that is a word of memory still has the value from the last time that the queue was used, which is
/// replaced before the queue is enabled.
template <typename Queue>
void configure_pair(GuardedBus& bus, Queue& queue, unsigned interface, Bus::QueueKind kind, uint32_t event_queue) {
  const QueuePlace& place = queue.place;
  memset(queue.memory.completions, 0, queue.entries * sizeof(Completion));
  memset(queue.memory.descriptors, 0, (size_t{queue.entries} << queue.log2_block) * sizeof(Descriptor));
  enable_ring(bus, place.ring_registers, false);
  disable_completion_queue(bus, place.completion_registers);
  queue.completion_bell = Doorbell(bus, interface, Bus::QueueKind::kCompletion, place.completion_queue,
                                   place.completion_registers + cq_register::kCommand);
  queue.completion_bell.ring(command::set_consumer(0));
  configure_completion_queue(bus, place.completion_registers, queue.memory.completion_address, log2_of(queue.entries),
                             event_queue);
  configure_ring(bus, place.ring_registers,
                 {queue.memory.descriptor_address, log2_of(queue.entries), queue.log2_block, place.completion_queue,
                  static_cast<uint16_t>(queue.producer)});
  queue.ring_bell = Doorbell(bus, interface, kind, place.hw_queue, place.ring_registers + ring_register::kCommand);
  queue.ring_bell.ring(command::set_producer(static_cast<uint16_t>(queue.producer)));
  queue.configured = true;
}

}  // namespace

int make_queue_memory(const char* name, uint32_t entries, uint32_t log2_block, int socket, bool virtual_addresses,
                      QueueMemory& out) {
  const size_t descriptor_bytes = round_up((size_t{entries} << log2_block) * sizeof(Descriptor));
  const size_t bytes = descriptor_bytes + round_up(entries * sizeof(Completion));
  out.zone = rte_memzone_reserve_aligned(name, bytes, socket, RTE_MEMZONE_IOVA_CONTIG, kRingBaseAlignment);
  if (out.zone == nullptr) {
    MQNIC_LOG(ERR, "%s: no memory for %zu bytes of rings: %s", name, bytes, rte_strerror(rte_errno));
    return -ENOMEM;
  }
  memset(out.zone->addr, 0, bytes);
  auto* memory = static_cast<uint8_t*>(out.zone->addr);
  const uint64_t address = virtual_addresses ? reinterpret_cast<uintptr_t>(memory) : out.zone->iova;
  out.descriptors = reinterpret_cast<Descriptor*>(memory);
  out.completions = reinterpret_cast<Completion*>(memory + descriptor_bytes);
  out.descriptor_address = address;
  out.completion_address = address + descriptor_bytes;
  return 0;
}

void free_queue_memory(QueueMemory& memory) {
  if (memory.zone != nullptr) rte_memzone_free(memory.zone);
  memory = {};
}

int start_rx_queue(GuardedBus& bus, RxQueue& queue, unsigned interface, uint32_t event_queue) {
  queue.consumer = queue.producer = 0;
  expect_completions(queue);
  queue.expected_mask = 0xffffu | queue.mask << 16;
  configure_pair(bus, queue, interface, Bus::QueueKind::kRx, event_queue);
  if (!refill(queue)) return -ENOMEM;
  enable_ring(bus, queue.place.ring_registers, true);
  // Doorbells that were rung while the queue was disabled are lost, so it is rung again.
  bus.write32(queue.place.ring_registers + ring_register::kCommand,
              command::set_producer(static_cast<uint16_t>(queue.producer)));
  queue.running.store(true, std::memory_order_release);
  return 0;
}

void start_tx_queue(GuardedBus& bus, TxQueue& queue, unsigned interface) {
  expect_completions(queue);
  memset(queue.pieces, 0, queue.entries);
  configure_pair(bus, queue, interface, Bus::QueueKind::kTx, 0);
  enable_ring(bus, queue.place.ring_registers, true);
  queue.running.store(true, std::memory_order_release);
}

void free_rx_buffers(RxQueue& queue) {
  if (queue.log2_block == 0) {
    for (; queue.consumer != queue.producer; ++queue.consumer) {
      rte_mempool_put(queue.pool, queue.mbufs[queue.consumer & queue.mask]);
    }
  } else {
    for (size_t i = 0; i < size_t{queue.entries} << queue.log2_block; ++i) {
      if (queue.mbufs[i] != nullptr) rte_mempool_put(queue.pool, queue.mbufs[i]);
    }
  }
  memset(queue.mbufs, 0, (size_t{queue.entries} << queue.log2_block) * sizeof(rte_mbuf*));
  queue.consumer = queue.producer;
}

void free_tx_buffers(TxQueue& queue) {
  for (; queue.consumer != queue.producer; ++queue.consumer) {
    rte_pktmbuf_free(queue.mbufs[queue.consumer & queue.mask]);
  }
}

}  // namespace mqnic::ethdev
