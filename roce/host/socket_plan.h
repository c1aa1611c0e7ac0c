// The port over the kernel's own UDP sockets: on which interface, and with which addresses.
#pragma once

#include <string>
#include <vector>

#include "host/port_plan.h"

namespace uroce {

/// Decides which interface the port is on, and writes it into `plan.spec.netdev`: the one that is named, that has the
/// first of the addresses that were asked for, or the first one with an address. Addresses in the port's arguments
/// (`addr=`) and those of `config` go to `addresses`; none: all of the interface, or, if none was named, of the
/// machine, which `plan.of_machine` then says. Returns false, with one line in `error`, when there is no such
/// interface, or the machine does not have an address.
bool choose_socket_interface(const EndpointConfig& config, PortPlan& plan, std::vector<LocalAddress>& addresses,
                             std::string& error);

/// What the driver is told: interface and addresses.
std::string socket_arguments(const PortPlan& plan);

}  // namespace uroce
