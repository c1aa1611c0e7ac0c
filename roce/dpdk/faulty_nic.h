// A NIC behind a bad cable: any NIC, with the faults that a user asked for between it and the engine.
#pragma once

#include <memory>

#include "dpdk/clock.h"
#include "dpdk/nic.h"
#include "fabric/link_faults.h"

namespace uroce {

/// `frame_bytes` is the longest frame, `clock` runs and outlives the NIC. Logs what is done, with the seed that
/// makes it happen again.
std::unique_ptr<Nic> impair_nic(std::unique_ptr<Nic> nic, const fabric::LinkFaults& faults, uint32_t frame_bytes,
                                const TscClock& clock);

}  // namespace uroce
