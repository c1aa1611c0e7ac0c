// Receiving: bursts, buffers for the card, and the number of packets that wait.
#pragma once

#include "pmd/ethdev/dpdk_driver.h"
#include "pmd/ethdev/queues.h"

namespace mqnic::ethdev {

eth_rx_burst_t choose_rx_burst(bool scatter, bool offloads);
/// Gives the card as many buffers as the pool has. False when not a single descriptor is in use afterwards.
bool refill(RxQueue& queue);
uint32_t count_waiting(void* rx_queue);
int rx_descriptor_status(void* rx_queue, uint16_t offset);

}  // namespace mqnic::ethdev
