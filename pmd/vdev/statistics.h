// Statistics of an ethdev, since they were reset.
#pragma once

#include "pmd/vdev/dpdk_driver.h"

namespace uroce::vdev {

int get_stats(rte_eth_dev* dev, rte_eth_stats* stats);
int reset_stats(rte_eth_dev* dev);
int get_xstats(rte_eth_dev* dev, rte_eth_xstat* values, unsigned count);
int get_xstats_names(rte_eth_dev* dev, rte_eth_xstat_name* names, unsigned count);

}  // namespace uroce::vdev
