// The switch on DPDK's telemetry socket: /uroce_switch/info, /uroce_switch/ports, /uroce_switch/port,N.
#pragma once

#include "live_switch.h"

namespace uroce::netswitch {

/// Makes the switch visible until this is called again with nullptr.
void publish(LiveSwitch* live, EngineMutex& lock);

}  // namespace uroce::netswitch
