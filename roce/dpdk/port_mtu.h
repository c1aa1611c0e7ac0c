// How much of the wanted MTU a device supports: known only once DPDK has it.
#pragma once

#include <string>

#include "host/endpoint_config.h"
#include "host/port_plan.h"

namespace uroce {

/// Sets the frame sizes of `plan` to what the device `plan.options.port_id` can carry, and has the port set its MTU to
/// that. Returns false, with one line in `error`, when `config.mtu` asks for more. For devices without a kernel
/// interface below them; with one it is the interface's MTU that counts.
bool fit_mtu(const EndpointConfig& config, PortPlan& plan, std::string& error);

}  // namespace uroce
