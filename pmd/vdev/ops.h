// What DPDK asks of an ethdev whose port is software.
#pragma once

#include "pmd/vdev/dpdk_driver.h"

namespace uroce::vdev {

extern const eth_dev_ops device_ops;

}  // namespace uroce::vdev
