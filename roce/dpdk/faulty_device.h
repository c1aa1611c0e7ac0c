// A device behind a bad cable: any device, with the faults that a user asked for between it and the engine.
#pragma once

#include <memory>

#include "dpdk/clock.h"
#include "dpdk/endpoint_device.h"
#include "fabric/link_faults.h"

namespace uroce {

/// `frame_bytes` is the longest frame, `clock` runs and outlives the device. Logs what is done, with the seed that
/// makes it happen again.
std::unique_ptr<EndpointDevice> impair_device(std::unique_ptr<EndpointDevice> device, const fabric::LinkFaults& faults,
                                              uint32_t frame_bytes, const TscClock& clock);

}  // namespace uroce
