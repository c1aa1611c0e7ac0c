// The card's clock, and timestamps of packets.
#pragma once

#include <ctime>

#include "pmd/ethdev/port.h"

namespace mqnic::ethdev {

int enable_timesync(rte_eth_dev* dev);
int disable_timesync(rte_eth_dev* dev);
int read_rx_timestamp(rte_eth_dev* dev, timespec* out, uint32_t flags);
int read_tx_timestamp(rte_eth_dev* dev, timespec* out);
int adjust_time(rte_eth_dev* dev, int64_t nanoseconds);
int read_time(rte_eth_dev* dev, timespec* out);
int write_time(rte_eth_dev* dev, const timespec* in);
int read_clock(rte_eth_dev* dev, uint64_t* out);

}  // namespace mqnic::ethdev
