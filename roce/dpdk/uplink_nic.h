// The NIC of an endpoint that is the uplink of a segment: a DPDK port, which the programs of the machine share.
//
// The endpoint's own engine answers for the host on the wire; segment/uplink_port.h has the rest.
#pragma once

#include <memory>
#include <string>

#include "dpdk/nic.h"
#include "host/endpoint_config.h"
#include "host/port_plan.h"

namespace uroce {

/// Joins the segment that `config` names as its uplink; `wire` is the open NIC of `plan`, which outlives
/// the uplink. Returns nullptr, with one line in `error`, when that fails.
std::unique_ptr<Nic> make_uplink(std::unique_ptr<Nic> wire, const PortPlan& plan, const UplinkConfig& config,
                                 std::string& error);

}  // namespace uroce
