// Statistics of an ethdev on a segment: what the driver counts, and what the segment does.
#pragma once

#include "pmd/shmlan/dpdk_driver.h"

namespace uroce::shmlan {

int get_stats(rte_eth_dev* dev, rte_eth_stats* stats);
int reset_stats(rte_eth_dev* dev);
int get_xstats(rte_eth_dev* dev, rte_eth_xstat* values, unsigned count);
int get_xstats_names(rte_eth_dev* dev, rte_eth_xstat_name* names, unsigned count);

}  // namespace uroce::shmlan
