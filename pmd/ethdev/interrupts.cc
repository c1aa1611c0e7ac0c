// Interrupts of RX queues: a completion queue that is armed makes an event, and an event queue that is armed makes an
// interrupt. Both are armed again each time.
#include "pmd/ethdev/interrupts.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "pmd/ethdev/log.h"
#include "pmd/ethdev/port.h"
#include "pmd/ethdev/rx_burst.h"
#include "pmd/hw/queue.h"
#include "pmd/hw/registers.h"

namespace mqnic::ethdev {

namespace {

bool is_pci(const Port& port) { return port.own_interrupt_handle == nullptr; }

/// EAL reports success for buses that have one vector for everything, and then no queue's interrupt ever comes.
bool has_vectors(const Port& port) {
  const rte_intr_handle* handle = port.dev->intr_handle;
  return handle != nullptr && (!is_pci(port) || rte_intr_type_get(handle) == RTE_INTR_HANDLE_VFIO_MSIX);
}

uint32_t queues_used(const Port& port) {
  if (!has_vectors(port)) return 0;
  uint32_t n = std::min<uint32_t>(port.dev->data->nb_rx_queues, port.event.count);
  if (!is_pci(port)) return std::min(n, port.bus().interrupt_count());
  return std::min<uint32_t>(n, RTE_MAX_RXTX_INTR_VEC_ID);
}

/// What to do about it depends on the bus.
const char* why_none(const Port& port) {
  if (port.bus().needs_run()) return "a card in this process has no vectors: card=vfio-user has";
  if (port.bus().uses_virtual_addresses()) return "this card has no vectors";
  if (port.dev->intr_handle == nullptr) return "a PCI card's vectors are its first port's";
  return "its kernel driver has no vectors for queues: bind the card to vfio-pci";
}

/// Tells EAL for which descriptor each queue waits.
int announce(Port& port) {
  rte_intr_handle* handle = port.dev->intr_handle;
  const auto used = static_cast<uint32_t>(port.interrupts.queues.size());
  if (used == 0) return -ENOTSUP;
  if (is_pci(port)) {
    if (rte_intr_efd_enable(handle, used) != 0) return -EIO;
    for (uint32_t i = 0; i < used; ++i) {
      port.interrupts.queues[i].event_fd = rte_intr_efds_index_get(handle, static_cast<int>(i));
    }
  } else {
    for (uint32_t i = 0; i < used; ++i) {
      const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
      if (fd < 0) return -errno;
      port.interrupts.queues[i].event_fd = fd;
      if (rte_intr_efds_index_set(handle, static_cast<int>(i), fd) != 0) return -EIO;
      const int rc = port.bus().set_interrupt(port.interrupts.queues[i].vector, fd);
      if (rc != 0) return rc;
    }
    rte_intr_nb_efd_set(handle, static_cast<int>(used));
    rte_intr_max_intr_set(handle, static_cast<int>(used) + 1);
    rte_intr_efd_counter_size_set(handle, sizeof(uint64_t));
    rte_intr_type_set(handle, RTE_INTR_HANDLE_VDEV);
  }
  if (rte_intr_vec_list_alloc(handle, "mqnic interrupts", port.dev->data->nb_rx_queues) != 0) return -ENOMEM;
  for (int q = 0; q < port.dev->data->nb_rx_queues; ++q) {
    rte_intr_vec_list_index_set(handle, q, RTE_INTR_VEC_RXTX_OFFSET + q % static_cast<int>(used));
  }
  return is_pci(port) && rte_intr_enable(handle) != 0 ? -EIO : 0;
}

int make_event_queues(Port& port, uint32_t used) {
  // An armed completion queue makes one event, so there are never more events than queues.
  const uint32_t entries = std::bit_ceil(std::max<uint32_t>(port.dev->data->nb_rx_queues, 64));
  const size_t bytes = std::max<size_t>(entries * sizeof(Event), kRingBaseAlignment);
  const std::string name = "mqnic_" + std::to_string(port.dev->data->port_id) + "_events";
  RxInterrupts& interrupts = port.interrupts;
  interrupts.zone = rte_memzone_reserve_aligned(name.c_str(), bytes * used, port.dev->data->numa_node,
                                                RTE_MEMZONE_IOVA_CONTIG, kRingBaseAlignment);
  if (interrupts.zone == nullptr) return -ENOMEM;
  memset(interrupts.zone->addr, 0, bytes * used);
  const bool by_address = port.bus().uses_virtual_addresses();
  for (uint32_t i = 0; i < used; ++i) {
    RxInterrupts::EventQueue queue;
    const uint32_t number = port.event.first + i;
    queue.events = reinterpret_cast<const Event*>(static_cast<uint8_t*>(interrupts.zone->addr) + i * bytes);
    queue.entries = entries;
    queue.registers = port.interface->event_queues.at(number);
    // Vector 0 of a PCI device is for everything that is not a queue.
    queue.vector = is_pci(port) ? RTE_INTR_VEC_RXTX_OFFSET + i : number % std::max(1u, port.bus().interrupt_count());
    disable_completion_queue(port.bus(), queue.registers);
    queue.bell = Doorbell(port.bus(), port.interface->number, Bus::QueueKind::kEvent, number,
                          queue.registers + cq_register::kCommand);
    queue.bell.ring(command::set_consumer(0));
    const uint64_t address = by_address ? reinterpret_cast<uintptr_t>(queue.events) : interrupts.zone->iova + i * bytes;
    configure_completion_queue(port.bus(), queue.registers, address, static_cast<uint32_t>(std::countr_zero(entries)),
                               queue.vector);
    interrupts.queues.push_back(queue);
  }
  return 0;
}

RxInterrupts::EventQueue* serving(Port& port, uint16_t rx_queue) {
  RxInterrupts& interrupts = port.interrupts;
  return interrupts.queues.empty() ? nullptr : &interrupts.queues[rx_queue % interrupts.queues.size()];
}

}  // namespace

int start_interrupts(Port& port) {
  if (port.dev->data->dev_conf.intr_conf.rxq == 0) return 0;
  const uint32_t used = queues_used(port);
  int rc = used == 0 ? -ENOTSUP : make_event_queues(port, used);
  if (rc == 0) rc = announce(port);
  if (rc != 0) {
    MQNIC_LOG(ERR, "%s: no interrupts for RX queues: %s", port.name(), used == 0 ? why_none(port) : strerror(-rc));
  }
  return rc;
}

void stop_interrupts(Port& port) {
  RxInterrupts& interrupts = port.interrupts;
  if (interrupts.queues.empty() && interrupts.zone == nullptr) return;
  rte_intr_handle* handle = port.dev->intr_handle;
  if (is_pci(port)) {
    rte_intr_disable(handle);
    rte_intr_efd_disable(handle);
  }
  for (RxInterrupts::EventQueue& queue : interrupts.queues) {
    disable_completion_queue(port.bus(), queue.registers);
    if (is_pci(port)) continue;
    port.bus().set_interrupt(queue.vector, -1);
    if (queue.event_fd >= 0) close(queue.event_fd);
  }
  if (!is_pci(port)) rte_intr_nb_efd_set(handle, 0);
  rte_intr_vec_list_free(handle);
  interrupts.queues.clear();
  rte_memzone_free(interrupts.zone);
  interrupts.zone = nullptr;
}

uint32_t event_queue_of(const Port& port, uint16_t rx_queue) {
  const size_t used = port.interrupts.queues.size();
  return port.event.first + (used == 0 ? 0 : static_cast<uint32_t>(rx_queue % used));
}

int enable_rx_interrupt(rte_eth_dev* dev, uint16_t number) {
  Port& port = port_of(dev);
  RxInterrupts::EventQueue* events = serving(port, number);
  if (events == nullptr) return -ENOTSUP;
  RxQueue& queue = *port.rx_queue(number);
  const std::lock_guard lock(port.interrupts.mutex);
  // The contents of the events are not needed: some queue has a packet. They are only consumed, to make room.
  for (uint32_t i = 0; i < events->entries; ++i) {
    const uint8_t phase =
        __atomic_load_n(&events->events[events->consumer & (events->entries - 1)].phase, __ATOMIC_ACQUIRE);
    if (!is_new(phase, events->consumer, events->entries)) break;
    ++events->consumer;
  }
  port.bus().write32(events->registers + cq_register::kCommand,
                     command::set_consumer_and_arm(static_cast<uint16_t>(events->consumer)));
  queue.acknowledged = queue.completed;
  port.bus().write32(queue.place.completion_registers + cq_register::kCommand,
                     command::set_consumer_and_arm(static_cast<uint16_t>(queue.completed)));
  // A packet that came before the queue was armed may have made no event, so the descriptor is made readable here.
  const uint64_t one = 1;
  if (count_waiting(&queue) != 0 && write(events->event_fd, &one, sizeof(one)) < 0 && errno != EAGAIN) return -errno;
  return 0;
}

int disable_rx_interrupt(rte_eth_dev* dev, uint16_t number) {
  Port& port = port_of(dev);
  if (serving(port, number) == nullptr) return -ENOTSUP;
  port.bus().write32(port.rx_queue(number)->place.completion_registers + cq_register::kCommand, command::arm(false));
  return 0;
}

}  // namespace mqnic::ethdev
