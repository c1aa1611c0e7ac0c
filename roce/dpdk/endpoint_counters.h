// All that an endpoint counts.
#pragma once

#include "dpdk/endpoint.h"
#include "dpdk/endpoint_device.h"

namespace uroce {

/// Of the engine, of the device, and, under names that begin with `cm_`, of connection management. To be called under
/// an EngineLock.
void for_each_counter(Endpoint& endpoint, const EndpointDevice::Counter& f);

}  // namespace uroce
