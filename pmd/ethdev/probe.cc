// Makes an ethdev for every port of a card.
#include "pmd/ethdev/probe.h"

#include "pmd/ethdev/lifecycle.h"
#include "pmd/ethdev/ops.h"
#include "pmd/ethdev/port.h"
#include "pmd/ethdev/rx_burst.h"
#include "pmd/ethdev/tx_burst.h"

#include <rte_malloc.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>

#include "pmd/ethdev/log.h"

namespace mqnic::ethdev {

RTE_LOG_REGISTER(log_type, pmd.net.mqnic, NOTICE);

namespace {

uint64_t hash(uint64_t start, const std::string& text) {
  uint64_t h = start;
  for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return h;
}

/// Part of the MAC address, so that two machines with the same board in the same slot have different addresses.
std::string machine_id() {
  std::ifstream file("/etc/machine-id");
  std::string id;
  std::getline(file, id);
  return id;
}

/// The card has no MAC address of its own. This one is the same after every start.
rte_ether_addr derive_mac(const CardDevice& card, const std::string& name, const PortNames& names, unsigned port) {
  uint64_t h = hash(0xcbf29ce484222325, machine_id() + "|" + name + "|" + names.wires + "|" +
                                            std::to_string(card.description().board_id) + "|" + std::to_string(port));
  const unsigned end = port < names.wire_ends.size() ? names.wire_ends[port] : 0;
  rte_ether_addr mac{};
  for (uint8_t& byte : mac.addr_bytes) {
    byte = static_cast<uint8_t>(h >> 56);
    h <<= 8;
  }
  mac.addr_bytes[0] = static_cast<uint8_t>((mac.addr_bytes[0] | RTE_ETHER_LOCAL_ADMIN_ADDR) & ~RTE_ETHER_GROUP_ADDR);
  // The devices at both ends of a cable may have the same name, so the end decides the last bit.
  mac.addr_bytes[5] = static_cast<uint8_t>((mac.addr_bytes[5] & 0xfe) | (end & 1));
  return mac;
}

rte_ether_addr count_up(rte_ether_addr mac, unsigned n) {
  for (int i = RTE_ETHER_ADDR_LEN - 1; i > 2 && n != 0; --i) {
    n += mac.addr_bytes[i];
    mac.addr_bytes[i] = static_cast<uint8_t>(n);
    n >>= 8;
  }
  return mac;
}

Share share_of(uint32_t count, unsigned ports, unsigned port) {
  const uint32_t each = count / ports;
  return {each * port, each};
}

int check_shares(const Port& port) {
  if (port.tx.count != 0 && port.rx.count != 0 && port.completion.count >= 2) return 0;
  MQNIC_LOG(ERR, "%s: interface %u has too few queues for its %zu ports", port.card->bus().name().c_str(),
            port.interface->number, port.interface->ports.size());
  return -ENODEV;
}

std::unique_ptr<Port> make_port(const std::shared_ptr<CardDevice>& card, const InterfaceDescription& interface,
                                unsigned number) {
  auto port = std::make_unique<Port>();
  const auto ports = static_cast<unsigned>(interface.ports.size());
  port->card = card;
  port->interface = &interface;
  port->number = number;
  port->log2_block_max = interface.log2_block_max;
  port->tx = share_of(interface.tx_queues.count, ports, number);
  port->rx = share_of(interface.rx_queues.count, ports, number);
  port->completion = share_of(interface.completion_queues.count, ports, number);
  port->event = share_of(interface.event_queues.count, ports, number);
  return port;
}

int give_interrupts(Port& port, rte_device* device, bool first) {
  if (!port.bus().uses_virtual_addresses()) {
    // A PCI device has one set of vectors, which its first port gets.
    if (first) port.dev->intr_handle = RTE_DEV_TO_PCI(device)->intr_handle;
    return 0;
  }
  if (port.bus().interrupt_count() == 0) return 0;
  port.own_interrupt_handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
  if (port.own_interrupt_handle == nullptr) return -ENOMEM;
  rte_intr_type_set(port.own_interrupt_handle, RTE_INTR_HANDLE_VDEV);
  rte_intr_fd_set(port.own_interrupt_handle, -1);
  port.dev->intr_handle = port.own_interrupt_handle;
  return 0;
}

/// Makes the ethdev, which then owns `port`.
int create_ethdev(std::unique_ptr<Port> port, rte_device* device, const std::string& name, const rte_ether_addr& mac,
                  bool first) {
  rte_eth_dev* dev = rte_eth_dev_allocate(name.c_str());
  if (dev == nullptr) return -ENOMEM;
  port->dev = dev;
  port->first_mac = mac;
  dev->device = device;
  dev->data->numa_node = device->numa_node;
  dev->data->dev_flags |= RTE_ETH_DEV_INTR_RMV;
  dev->data->dev_private = rte_zmalloc("mqnic port", sizeof(Port*), 0);
  dev->data->mac_addrs = static_cast<rte_ether_addr*>(rte_zmalloc("mqnic mac", sizeof(rte_ether_addr), 0));
  int rc = dev->data->dev_private == nullptr || dev->data->mac_addrs == nullptr ? -ENOMEM : 0;
  if (rc == 0) rc = give_interrupts(*port, device, first);
  if (rc != 0) {
    rte_eth_dev_release_port(dev);
    return rc;
  }
  rte_ether_addr_copy(&mac, dev->data->mac_addrs);
  // The card has no filter, so the port is promiscuous whether the application asks for it or not.
  dev->data->promiscuous = dev->data->all_multicast = 1;
  dev->dev_ops = &port_ops;
  dev->rx_queue_count = count_waiting;
  dev->rx_descriptor_status = rx_descriptor_status;
  dev->tx_descriptor_status = tx_descriptor_status;
  dev->rx_pkt_burst = choose_rx_burst(false, false);
  dev->tx_pkt_burst = choose_tx_burst(false);
  port->card->add_port(dev->data->port_id);
  *static_cast<Port**>(dev->data->dev_private) = port.release();
  rte_eth_dev_probing_finish(dev);
  return 0;
}

}  // namespace

int create_ports(const std::shared_ptr<CardDevice>& card, rte_device* device, const PortNames& names) {
  unsigned count = 0;
  for (const InterfaceDescription& interface : card->description().interfaces) {
    for (unsigned number = 0; number < interface.ports.size(); ++number, ++count) {
      std::string name = names.device;
      if (count != 0) name += "_if" + std::to_string(interface.number) + "_port" + std::to_string(number);
      std::unique_ptr<Port> port = make_port(card, interface, number);
      const rte_ether_addr mac =
          names.mac != nullptr ? count_up(*names.mac, count) : derive_mac(*card, names.device, names, count);
      int rc = check_shares(*port);
      if (rc == 0) rc = create_ethdev(std::move(port), device, name, mac, count == 0);
      if (rc != 0) {
        MQNIC_LOG(ERR, "%s: cannot be made: %s", name.c_str(), strerror(-rc));
        remove_ports(device);
        return rc;
      }
    }
  }
  return 0;
}

int remove_ports(const rte_device* device) {
  for_each_port([&](rte_eth_dev& dev) {
    if (dev.device != device) return;
    if (dev.data->dev_started != 0) stop_port(&dev);
    rte_eth_dev_close(dev.data->port_id);
  });
  return 0;
}

}  // namespace mqnic::ethdev
