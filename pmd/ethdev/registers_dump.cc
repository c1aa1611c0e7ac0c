#include "pmd/ethdev/registers_dump.h"

#include <rte_dev_info.h>

#include <cerrno>

#include "pmd/hw/registers.h"

namespace mqnic::ethdev {

namespace {

constexpr uint32_t kPortWords = 16, kInterfaceWords = 16, kSchedulerWords = 8, kMapWords = 4;
constexpr uint32_t kRingWords = 5, kCompletionWords = 4, kQueueWords = kRingWords + kCompletionWords + 1;

class WordWriter {
 public:
  WordWriter(Bus& bus, uint32_t* out) : bus_(&bus), out_(out) {}
  void block(uint32_t offset, uint32_t words) {
    for (uint32_t i = 0; i < words; ++i) put(offset == 0 ? 0 : bus_->read32(offset + 4 * i));
  }
  void put(uint32_t word) { *out_++ = word; }

 private:
  Bus* bus_;
  uint32_t* out_;
};

}  // namespace

int get_registers(rte_eth_dev* dev, rte_dev_reg_info* info) {
  const Port& port = port_of(dev);
  const rte_eth_dev_data& data = *dev->data;
  const uint32_t words = kPortWords + kInterfaceWords + kSchedulerWords + kMapWords +
                         kQueueWords * (uint32_t{data.nb_rx_queues} + data.nb_tx_queues);
  info->width = sizeof(uint32_t);
  if (info->data == nullptr) {
    info->length = words;
    return 0;
  }
  if (info->length != 0 && info->length < words) return -EINVAL;
  if (port.card->check_removed()) return -ENODEV;
  WordWriter out(port.bus(), static_cast<uint32_t*>(info->data));
  out.block(port.hw().control, kPortWords);
  out.block(port.interface->control, kInterfaceWords);
  out.block(port.scheduler().control, kSchedulerWords);
  out.block(port.hw().queue_map, kMapWords);
  for (uint32_t q = 0; q < data.nb_rx_queues; ++q) {
    out.block(port.interface->rx_queues.at(port.rx.first + q), kRingWords);
    out.block(port.interface->completion_queues.at(port.completion.first + q), kCompletionWords);
    out.put(0);
  }
  for (uint32_t q = 0; q < data.nb_tx_queues; ++q) {
    out.block(port.interface->tx_queues.at(port.tx.first + q), kRingWords);
    out.block(port.interface->completion_queues.at(tx_completion_queue(port, q)), kCompletionWords);
    out.block(port.scheduler().channels.at(port.tx.first + q), 1);
  }
  info->length = words;
  info->version = version::kPortControl;
  return 0;
}

}  // namespace mqnic::ethdev
