// The plan for a port that a DPDK application has already (EndpointConfig::eal_running).
#pragma once

#include <string>

#include "host/endpoint_config.h"
#include "host/port_plan.h"

namespace uroce {

/// Asks DPDK what the port is. False and one clear line in `error` when there is no such port.
bool plan_existing_port(const EndpointConfig& config, PortPlan& plan, std::string& error);

}  // namespace uroce
