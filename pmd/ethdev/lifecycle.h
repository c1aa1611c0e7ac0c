// Configuring, starting, stopping and closing a port, whole or queue by queue.
#pragma once

#include "pmd/ethdev/port.h"

namespace mqnic::ethdev {

/// From now on all bursts of the ethdev return nothing.
void stop_bursts(rte_eth_dev& dev);

/// Chooses the burst functions that the queues' offloads need, also for a started port.
void choose_bursts(Port& port);
int configure_port(rte_eth_dev* dev);
int start_port(rte_eth_dev* dev);
int stop_port(rte_eth_dev* dev);
int close_port(rte_eth_dev* dev);
/// rte_eth_dev_reset: a stopped port becomes as it was after probing, without queues and with nothing set. The card has
/// no register for that; packets of the port that it still has stay with it.
int reset_port(rte_eth_dev* dev);
int start_one_rx_queue(rte_eth_dev* dev, uint16_t queue);
int stop_one_rx_queue(rte_eth_dev* dev, uint16_t queue);
int start_one_tx_queue(rte_eth_dev* dev, uint16_t queue);
int stop_one_tx_queue(rte_eth_dev* dev, uint16_t queue);
/// Lets frames of this MTU through from now on. Returns -EINVAL when the buffers of a started port are too small for
/// them.
int set_mtu(rte_eth_dev* dev, uint16_t mtu);

}  // namespace mqnic::ethdev
