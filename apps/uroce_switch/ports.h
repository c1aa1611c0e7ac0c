// From what the user asked for to DPDK ports: those of shared memory, those named by --port, those that EAL was given.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dpdk/dpdk_port.h"
#include "dpdk/place.h"
#include "dpdk/port_plan.h"
#include "options.h"

struct rte_mempool;

namespace uroce::netswitch {

struct PlannedPort {
  PortPlan plan;
  bool probed = false;  // EAL has it already
};

/// What --port names, checked before EAL is started: an interface that is not there is one line, not a page.
bool plan_named_ports(const Options& options, std::vector<PlannedPort>& ports, std::string& error);
/// After EAL: puts the shared memory ports in front and EAL's own behind, and makes devices of all.
bool probe_ports(const Options& options, const SwitchSign& sign, std::vector<PlannedPort>& ports, std::string& error);

/// Memory for the frames of all ports. nullptr and one line in `error` when there is not enough.
rte_mempool* make_shared_pool(const Options& options, const std::vector<PlannedPort>& ports, std::string& error);
/// What that takes, roughly.
uint64_t pool_bytes(const Options& options, size_t ports);

}  // namespace uroce::netswitch
