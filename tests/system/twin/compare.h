// What two worlds saw, packet by packet.
#pragma once

#include <string>

#include "worlds.h"

namespace uroce::twin {

/// Empty when they are the same; otherwise a text with the first difference of each list.
std::string compare(const Outcome& simulated, const Outcome& live);

/// "RC_SEND_ONLY psn 0x12 ackreq, payload 7"
std::string describe(const std::vector<uint8_t>& frame);

}  // namespace uroce::twin
