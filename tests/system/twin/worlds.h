// The two worlds. Each carries a scenario out and tells what both hosts saw.
#pragma once

#include <array>
#include <string>

#include "end.h"

namespace uroce::twin {

using Outcome = std::array<Seen, 2>;  // of A and of B

/// Of chance: both worlds make the same streams of random numbers of it for the two directions of the cable.
inline constexpr uint64_t kCableSeed = 4;

/// No scenario takes longer, in either world's time.
inline constexpr Duration kLimit = milliseconds(60'000);

/// Two hosts of the simulator on a cable with a delay but without serialization: what leaves together arrives together,
/// as in shared memory.
Outcome in_simulator(const Scenario& scenario);

/// Two engines in shared memory, plugged into ports of uroce-switch's switch. All are in this process and one thread
/// drives them, one after the other, each until it has nothing more to do, in a time of their own. Fills `error` when
/// DPDK does not start.
Outcome on_switch(const Scenario& scenario, std::string& error);

}  // namespace uroce::twin
