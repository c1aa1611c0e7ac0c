// The driver's table of operations, by which its ethdevs are known.
#pragma once

#include "pmd/ethdev/dpdk_driver.h"

namespace mqnic::ethdev {

/// All operations of the driver's ethdevs.
extern const eth_dev_ops port_ops;

/// Calls `f(rte_eth_dev&)` for each of this driver's ethdevs, whoever owns them.
template <typename F>
void for_each_port(F f) {
  for (uint16_t id = 0; id < RTE_MAX_ETHPORTS; ++id) {
    if (rte_eth_dev_is_valid_port(id) != 0 && rte_eth_devices[id].dev_ops == &port_ops) f(rte_eth_devices[id]);
  }
}

}  // namespace mqnic::ethdev
