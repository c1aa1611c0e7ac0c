// rte_eth_rx_queue_setup and rte_eth_tx_queue_setup: allocate memory, and check what was asked for.
#include "pmd/ethdev/queue_setup.h"

#include <rte_malloc.h>

#include <algorithm>
#include <bit>
#include <new>

#include "pmd/ethdev/log.h"
#include "pmd/ethdev/port.h"
#include "pmd/ethdev/statistics.h"

namespace mqnic::ethdev {

namespace {

constexpr uint16_t kBatchDefault = 32;

/// The batch size asked for or the default, but at most a quarter of the ring.
uint32_t batch_size(uint32_t asked, uint32_t entries) {
  return std::clamp<uint32_t>(asked == 0 ? kBatchDefault : asked, 1, entries / 4);
}

template <typename Queue>
Queue* allocate(unsigned socket) {
  void* memory = rte_zmalloc_socket("mqnic queue", sizeof(Queue), RTE_CACHE_LINE_SIZE, static_cast<int>(socket));
  return memory == nullptr ? nullptr : new (memory) Queue();
}

template <typename Queue>
void destroy(Queue* queue) {
  rte_free(queue->mbufs);
  free_queue_memory(queue->memory);
  queue->~Queue();
  rte_free(queue);
}

uint32_t log2_pieces(uint32_t pieces) { return static_cast<uint32_t>(std::countr_zero(std::bit_ceil(pieces))); }

/// How many pieces a frame of `bytes` needs.
uint32_t pieces_for(uint32_t bytes, uint32_t room) { return (bytes + room - 1) / room; }

std::string zone_name(const Port& port, const char* kind, uint16_t queue) {
  return "mqnic_" + std::to_string(port.dev->data->port_id) + kind + std::to_string(queue);
}

}  // namespace

int fit_buffers(const Port& port, RxQueue& queue) {
  queue.limit = std::min(port.dev->data->mtu + kFrameOverhead, port.interface->max_rx_frame_bytes);
  // The limit has one byte more, to recognise frames that are too long, which the card would cut silently.
  const uint32_t pieces = pieces_for(queue.limit, queue.room);
  if (pieces > 1u << queue.log2_block) {
    MQNIC_LOG(ERR, "%s: RX queue %u: frames of %u bytes need %u buffers of %u bytes: %s", port.name(),
              queue.place.number, queue.limit, pieces, queue.room,
              (queue.offloads & RTE_ETH_RX_OFFLOAD_SCATTER) != 0 ? "larger buffers are needed"
                                                                 : "offload SCATTER or larger buffers are needed");
    return -EINVAL;
  }
  queue.longest = std::min(queue.limit, uint32_t{queue.room} << queue.log2_block);
  queue.pieces = pieces;
  return 0;
}

int setup_rx_queue(rte_eth_dev* dev, uint16_t number, uint16_t descriptors, unsigned socket, const rte_eth_rxconf* conf,
                   rte_mempool* pool) {
  Port& port = port_of(dev);
  if (pool == nullptr) {
    MQNIC_LOG(ERR, "%s: RX queue %u: one buffer pool is needed", port.name(), number);
    return -EINVAL;
  }
  const uint32_t room = rte_pktmbuf_data_room_size(pool);
  if (room <= RTE_PKTMBUF_HEADROOM) {
    MQNIC_LOG(ERR, "%s: RX queue %u: buffers of %u bytes have no room behind the headroom", port.name(), number, room);
    return -EINVAL;
  }
  auto* queue = allocate<RxQueue>(socket);
  if (queue == nullptr) return -ENOMEM;
  queue->entries = std::bit_ceil<uint32_t>(descriptors);
  queue->mask = queue->entries - 1;
  queue->room = static_cast<uint16_t>(std::min<uint32_t>(room - RTE_PKTMBUF_HEADROOM, UINT16_MAX));
  queue->refill_threshold = batch_size(conf->rx_free_thresh, queue->entries);
  queue->pool = pool;
  queue->port = &port;
  queue->port_id = dev->data->port_id;
  queue->virtual_addresses = port.bus().uses_virtual_addresses();
  queue->run = port.bus().needs_run() ? &port.bus().inner() : nullptr;
  queue->deferred_start = conf->rx_deferred_start != 0;
  queue->offloads = conf->offloads | dev->data->dev_conf.rxmode.offloads;
  queue->place.number = number;
  queue->place.hw_queue = port.rx.first + number;
  queue->place.completion_queue = port.completion.first + number;
  queue->place.ring_registers = port.interface->rx_queues.at(queue->place.hw_queue);
  queue->place.completion_registers = port.interface->completion_queues.at(queue->place.completion_queue);
  // The MTU may still grow until the port is started, so blocks are as large as this pool can ever need.
  if ((queue->offloads & RTE_ETH_RX_OFFLOAD_SCATTER) != 0) {
    queue->log2_block =
        std::min(log2_pieces(pieces_for(port.interface->max_rx_frame_bytes, queue->room)), port.log2_block_max);
  }
  rte_mbuf model{};
  model.data_off = RTE_PKTMBUF_HEADROOM;
  model.nb_segs = 1;
  model.port = dev->data->port_id;
  rte_mbuf_refcnt_set(&model, 1);
  memcpy(&queue->rearm, reinterpret_cast<const uint8_t*>(&model) + offsetof(rte_mbuf, rearm_data),
         sizeof(queue->rearm));

  const std::string name = zone_name(port, "_rx", number);
  int rc = make_queue_memory(name.c_str(), queue->entries, queue->log2_block, static_cast<int>(socket),
                             queue->virtual_addresses, queue->memory);
  queue->mbufs = static_cast<rte_mbuf**>(
      rte_zmalloc_socket(name.c_str(), (size_t{queue->entries} << queue->log2_block) * sizeof(void*),
                         RTE_CACHE_LINE_SIZE, static_cast<int>(socket)));
  if (rc == 0 && queue->mbufs == nullptr) rc = -ENOMEM;
  if (rc != 0) {
    destroy(queue);
    return rc;
  }
  queue->completions = queue->memory.completions;
  queue->descriptors = queue->memory.descriptors;
  dev->data->rx_queues[number] = queue;
  return 0;
}

int setup_tx_queue(rte_eth_dev* dev, uint16_t number, uint16_t descriptors, unsigned socket,
                   const rte_eth_txconf* conf) {
  Port& port = port_of(dev);
  auto* queue = allocate<TxQueue>(socket);
  if (queue == nullptr) return -ENOMEM;
  queue->entries = std::bit_ceil<uint32_t>(descriptors);
  queue->mask = queue->entries - 1;
  queue->free_threshold = batch_size(conf->tx_free_thresh, queue->entries);
  queue->longest = port.interface->max_tx_frame_bytes;
  queue->port = &port;
  queue->port_id = dev->data->port_id;
  queue->virtual_addresses = port.bus().uses_virtual_addresses();
  queue->run = port.bus().needs_run() ? &port.bus().inner() : nullptr;
  queue->deferred_start = conf->tx_deferred_start != 0;
  queue->offloads = conf->offloads | dev->data->dev_conf.txmode.offloads;
  queue->card_checksums = (port.interface->features & interface_control::kTxChecksum) != 0;
  if ((queue->offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0) queue->log2_block = port.log2_block_max;
  queue->place.number = number;
  queue->place.hw_queue = port.tx.first + number;
  queue->place.completion_queue = tx_completion_queue(port, number);
  queue->place.ring_registers = port.interface->tx_queues.at(queue->place.hw_queue);
  queue->place.completion_registers = port.interface->completion_queues.at(queue->place.completion_queue);

  const std::string name = zone_name(port, "_tx", number);
  int rc = make_queue_memory(name.c_str(), queue->entries, queue->log2_block, static_cast<int>(socket),
                             queue->virtual_addresses, queue->memory);
  // A single allocation for the mbufs, followed by the number of pieces of each.
  queue->mbufs = static_cast<rte_mbuf**>(rte_zmalloc_socket(
      name.c_str(), queue->entries * (sizeof(void*) + sizeof(uint8_t)), RTE_CACHE_LINE_SIZE, static_cast<int>(socket)));
  if (rc == 0 && queue->mbufs == nullptr) rc = -ENOMEM;
  if (rc != 0) {
    destroy(queue);
    return rc;
  }
  queue->pieces = reinterpret_cast<uint8_t*>(queue->mbufs + queue->entries);
  queue->completions = queue->memory.completions;
  queue->descriptors = queue->memory.descriptors;
  dev->data->tx_queues[number] = queue;
  return 0;
}

void release_rx_queue(rte_eth_dev* dev, uint16_t number) {
  Port& port = port_of(dev);
  RxQueue* queue = port.rx_queue(number);
  if (queue == nullptr) return;
  retire(port.retired.rx, queue->counters);
  dev->data->rx_queues[number] = nullptr;
  destroy(queue);
}

void release_tx_queue(rte_eth_dev* dev, uint16_t number) {
  Port& port = port_of(dev);
  TxQueue* queue = port.tx_queue(number);
  if (queue == nullptr) return;
  retire(port.retired.tx, queue->counters);
  dev->data->tx_queues[number] = nullptr;
  destroy(queue);
}

}  // namespace mqnic::ethdev
