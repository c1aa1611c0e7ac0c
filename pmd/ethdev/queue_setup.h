// Makes queues as the application configures them.
#pragma once

#include "pmd/ethdev/port.h"

namespace mqnic::ethdev {

int setup_rx_queue(rte_eth_dev* dev, uint16_t queue, uint16_t descriptors, unsigned socket, const rte_eth_rxconf* conf,
                   rte_mempool* pool);
int setup_tx_queue(rte_eth_dev* dev, uint16_t queue, uint16_t descriptors, unsigned socket, const rte_eth_txconf* conf);
void release_rx_queue(rte_eth_dev* dev, uint16_t queue);
void release_tx_queue(rte_eth_dev* dev, uint16_t queue);
/// Makes frames up to the MTU fit the buffers of the queue's pool.
int fit_buffers(const Port& port, RxQueue& queue);

}  // namespace mqnic::ethdev
