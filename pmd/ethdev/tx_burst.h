// Sending: bursts, and freeing what the card has sent.
#pragma once

#include "pmd/ethdev/dpdk_driver.h"
#include "pmd/ethdev/queues.h"

namespace mqnic::ethdev {

eth_tx_burst_t choose_tx_burst(bool blocks);
uint16_t prepare_tx(void* queue, rte_mbuf** packets, uint16_t count);
/// Frees what the card has sent. Returns how many descriptors became free.
uint32_t reap(TxQueue& queue, uint32_t most);
int tx_descriptor_status(void* tx_queue, uint16_t offset);

}  // namespace mqnic::ethdev
