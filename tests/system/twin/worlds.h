// The two worlds. Each carries a scenario out and tells what both hosts saw.
#pragma once

#include <array>
#include <string>

#include "end.h"

namespace uroce::twin {

using Outcome = std::array<Seen, 2>;  // of A and of B

/// Both worlds derive the same streams of random numbers from it for the two directions of the cable.
inline constexpr uint64_t kCableSeed = 4;

/// No scenario takes longer, by the time of either world.
inline constexpr Duration kLimit = milliseconds(60'000);

/// Two hosts of the simulator on a cable with a delay but without serialization: frames that leave together arrive
/// together, as in shared memory.
Outcome in_simulator(const Scenario& scenario);

/// Two engines in shared memory, each in a port of uroce-switch's switch. One thread of this process drives all of them
/// in turn, each until it has nothing more to do, by a time of their own. Sets `error` when DPDK does not start.
Outcome on_switch(const Scenario& scenario, std::string& error);

}  // namespace uroce::twin
