// Counters as ethdev shows them: the sums over a port's queues and those that were released.
#pragma once

#include "pmd/ethdev/port.h"

namespace mqnic::ethdev {

int get_stats(rte_eth_dev* dev, rte_eth_stats* stats);
int reset_stats(rte_eth_dev* dev);
int get_xstats(rte_eth_dev* dev, rte_eth_xstat* values, unsigned n);
int get_xstats_names(rte_eth_dev* dev, rte_eth_xstat_name* names, unsigned n);
void retire(Counters<kRxCounters>& total, const Counters<kRxCounters>& counters);
void retire(Counters<kTxCounters>& total, const Counters<kTxCounters>& counters);

}  // namespace mqnic::ethdev
