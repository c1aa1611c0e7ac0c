// Interrupts of RX queues.
#pragma once

#include "pmd/ethdev/port.h"

namespace mqnic::ethdev {

int start_interrupts(Port& port);
void stop_interrupts(Port& port);
/// The card's event queue for an RX queue.
uint32_t event_queue_of(const Port& port, uint16_t rx_queue);
int enable_rx_interrupt(rte_eth_dev* dev, uint16_t queue);
int disable_rx_interrupt(rte_eth_dev* dev, uint16_t queue);

}  // namespace mqnic::ethdev
