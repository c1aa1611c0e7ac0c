// rte_eth_dev_get_reg_info: the registers that belong to a port. Reading them changes nothing.
#pragma once

#include "pmd/ethdev/port.h"

namespace mqnic::ethdev {

/// In this order, as words: 16 of the port's control block, 16 of the interface's, 8 of the scheduler's, 4 of the port
/// in the RX queue map; then 10 for each RX queue and each TX queue of the configuration: 5 of its ring, 4 of its
/// completion queue, and the scheduler's channel (TX; 0 for RX). `version` is the version of the port control block.
int get_registers(rte_eth_dev* dev, rte_dev_reg_info* info);

}  // namespace mqnic::ethdev
