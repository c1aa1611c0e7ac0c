// --vdev=net_mqnic0,...: cards that are not on this machine's PCI bus.
#include "pmd/ethdev/arguments.h"
#include "pmd/ethdev/card_kinds.h"
#include "pmd/ethdev/log.h"
#include "pmd/ethdev/ops.h"
#include "pmd/ethdev/port.h"
#include "pmd/ethdev/probe.h"

namespace mqnic::ethdev {

namespace {

int report(const Failure& failure) {
  MQNIC_LOG(ERR, "%s", failure.message.c_str());
  return failure.code;
}

int probe(rte_vdev_device* vdev) {
  const char* name = rte_vdev_device_name(vdev);
  if (rte_eal_process_type() != RTE_PROC_PRIMARY) {
    MQNIC_LOG(ERR, "%s: secondary processes cannot use this driver's ports", name);
    return -ENOTSUP;
  }
  Arguments arguments;
  if (Failure f = parse_arguments(name, rte_vdev_device_args(vdev), arguments)) return report(f);
  OpenedCard opened;
  if (Failure f = open_card(arguments, opened)) return report(f);
  std::shared_ptr<CardDevice> card;
  if (Failure f = CardDevice::open(std::move(opened.bus), card)) return report(f);
  PortNames names{name, arguments.socket, std::move(opened.wire_ends), arguments.mac ? &*arguments.mac : nullptr};
  for (const std::string& wire : arguments.wires) names.wires += "," + wire;
  return create_ports(card, &vdev->device, names);
}

int remove(rte_vdev_device* vdev) { return remove_ports(&vdev->device); }

CardDevice* record_of(const rte_device& device) {
  CardDevice* card = nullptr;
  for_each_port([&](const rte_eth_dev& dev) {
    if (dev.device == &device) card = port_of(&dev).card.get();
  });
  return card;
}

int map(rte_vdev_device* vdev, void* address, uint64_t, size_t bytes) {
  CardDevice* card = record_of(vdev->device);
  return card == nullptr ? -ENODEV : card->map_memory(address, bytes);
}

int unmap(rte_vdev_device* vdev, void* address, uint64_t, size_t bytes) {
  CardDevice* card = record_of(vdev->device);
  return card == nullptr ? -ENODEV : card->unmap_memory(address, bytes);
}

constexpr rte_vdev_driver make_driver() {
  rte_vdev_driver driver{};
  driver.probe = probe;
  driver.remove = remove;
  driver.dma_map = map;
  driver.dma_unmap = unmap;
  return driver;
}

// Constant: EAL's registration may run before other initialisers.
constinit rte_vdev_driver mqnic_vdev_driver = make_driver();

}  // namespace

RTE_PMD_REGISTER_VDEV(net_mqnic, mqnic_vdev_driver);
RTE_PMD_REGISTER_PARAM_STRING(net_mqnic, MQNIC_ARGUMENTS);

}  // namespace mqnic::ethdev
