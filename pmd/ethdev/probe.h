// An ethdev for every port of a card.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pmd/ethdev/card_device.h"
#include "pmd/ethdev/dpdk_driver.h"

namespace mqnic::ethdev {

struct PortNames {
  std::string device;  // the first ethdev's name; the others add _ifX_portY
  std::string wires;   // tells cards of the same name apart, for MAC addresses
  std::vector<unsigned> wire_ends;
  const rte_ether_addr* mac = nullptr;  // of the first; the others count up
};
int create_ports(const std::shared_ptr<CardDevice>& card, rte_device* device, const PortNames& names);
int remove_ports(const rte_device* device);

}  // namespace mqnic::ethdev
