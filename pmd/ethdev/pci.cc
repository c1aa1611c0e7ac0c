// The card on the PCI bus, bound to vfio-pci.
#include <rte_devargs.h>
#include <rte_io.h>

#include <cstring>
#include <optional>

#include "pmd/ethdev/arguments.h"
#include "pmd/ethdev/log.h"
#include "pmd/ethdev/port.h"
#include "pmd/ethdev/probe.h"
#include "pmd/hw/registers.h"

namespace mqnic::ethdev {

namespace {

/// BAR0, mapped. DPDK itself maps memory for DMA and takes care of interrupts.
class PciBus final : public Bus {
 public:
  explicit PciBus(const rte_pci_device& device)
      : name_(device.device.name),
        bar_(static_cast<uint8_t*>(device.mem_resource[0].addr)),
        bytes_(device.mem_resource[0].len) {}

  std::string name() const override { return name_; }
  size_t bar_bytes() const override { return bytes_; }
  uint32_t read32(uint32_t offset) override {
    if (offset + sizeof(uint32_t) > bytes_) return kAllOnes;
    return rte_read32(bar_ + offset);
  }
  void write32(uint32_t offset, uint32_t value) override {
    if (offset + sizeof(uint32_t) <= bytes_) rte_write32(value, bar_ + offset);
  }
  volatile uint32_t* doorbell_word(unsigned, QueueKind, unsigned, uint32_t register_offset) override {
    return reinterpret_cast<volatile uint32_t*>(bar_ + register_offset);
  }
  bool uses_virtual_addresses() const override { return false; }
  int map_memory(void*, size_t, int, uint64_t) override { return 0; }
  int unmap_memory(void*, size_t) override { return 0; }

 private:
  std::string name_;
  uint8_t* bar_;
  size_t bytes_;
};

int probe(rte_pci_driver*, rte_pci_device* device) {
  if (rte_eal_process_type() != RTE_PROC_PRIMARY) {
    MQNIC_LOG(ERR, "%s: secondary processes cannot use this driver's ports", device->device.name);
    return -ENOTSUP;
  }
  if (device->mem_resource[0].addr == nullptr) {
    MQNIC_LOG(ERR, "%s: BAR0 is not mapped: is the card bound to vfio-pci?", device->device.name);
    return -ENODEV;
  }
  const rte_devargs* arguments = device->device.devargs;
  std::optional<rte_ether_addr> mac;
  if (Failure f = parse_pci_arguments(device->device.name, arguments == nullptr ? nullptr : arguments->args, mac)) {
    MQNIC_LOG(ERR, "%s", f.message.c_str());
    return f.code;
  }
  std::shared_ptr<CardDevice> card;
  if (Failure f = CardDevice::open(std::make_unique<PciBus>(*device), card)) {
    MQNIC_LOG(ERR, "%s", f.message.c_str());
    return f.code;
  }
  PortNames names;
  names.device = device->device.name;
  if (mac) names.mac = &*mac;
  return create_ports(card, &device->device, names);
}

int remove(rte_pci_device* device) { return remove_ports(&device->device); }

constexpr rte_pci_id ids[] = {
    {RTE_PCI_DEVICE(kPciVendorCorundum, kPciDevice)},
    {RTE_PCI_DEVICE(kPciVendorCorundumAlt, kPciDevice)},
    {},
};

constexpr rte_pci_driver make_driver() {
  rte_pci_driver driver{};
  driver.probe = probe;
  driver.remove = remove;
  driver.id_table = ids;
  driver.drv_flags = RTE_PCI_DRV_NEED_MAPPING;
  return driver;
}

// Constant: EAL's registration may run before other initialisers.
constinit rte_pci_driver mqnic_pci_driver = make_driver();

}  // namespace

RTE_PMD_REGISTER_PCI(net_mqnic_pci, mqnic_pci_driver);
RTE_PMD_REGISTER_PCI_TABLE(net_mqnic_pci, ids);
RTE_PMD_REGISTER_PARAM_STRING(net_mqnic_pci, MQNIC_PCI_ARGUMENTS);
RTE_PMD_REGISTER_KMOD_DEP(net_mqnic_pci, "* vfio-pci");

}  // namespace mqnic::ethdev
