// Makes an ethdev for every port of a card.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pmd/ethdev/card_device.h"
#include "pmd/ethdev/dpdk_driver.h"

namespace mqnic::ethdev {

struct PortNames {
  std::string device;  // the first ethdev's name; the others add _ifX_portY
  std::string wires;   // makes the MAC addresses of cards with the same name differ
  std::vector<unsigned> wire_ends;
  const rte_ether_addr* mac = nullptr;  // that of the first port; the others count up from it
};
int create_ports(const std::shared_ptr<CardDevice>& card, rte_device* device, const PortNames& names);
int remove_ports(const rte_device* device);

}  // namespace mqnic::ethdev
