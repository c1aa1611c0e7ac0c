// From what the user asked for to DPDK ports: those of shared memory, those named by --port, those that EAL was given.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dpdk/dpdk_port.h"
#include "host/port_plan.h"
#include "host/wire_end.h"
#include "options.h"
#include "switch_port.h"

struct rte_mempool;

namespace uroce::netswitch {

struct PlannedPort {
  PortPlan plan;
  std::string listens_at;  // a socket: shared memory without DPDK; else "", and a port of DPDK
  bool probed = false;     // DPDK has it
};

/// What --port names, checked before EAL is started: an interface that is not there is one line, not a page.
bool plan_named_ports(const Options& options, std::vector<PlannedPort>& ports, std::string& error);
/// After EAL: puts the shared memory ports in front and EAL's own behind, and makes devices of those of DPDK.
bool probe_ports(const Options& options, const SwitchSign& sign, std::vector<PlannedPort>& ports, std::string& error);

/// nullptr and one line in `error` when it cannot be.
std::unique_ptr<SwitchPort> start_port(const PlannedPort& planned, rte_mempool* pool, std::string& error);

/// What may wait in the port to be received, and what its neighbour sends, if that is a program, before it looks again.
uint32_t ring_bytes(const PlannedPort& port);

/// Memory for the frames of all ports. nullptr and one line in `error` when there is not enough.
rte_mempool* make_shared_pool(const Options& options, const std::vector<PlannedPort>& ports, std::string& error);
/// Where port `number` receives into: `shared`, or a pool of its own that lives as long as the process.
rte_mempool* pool_of(const Options& options, const PlannedPort& port, size_t number, rte_mempool* shared,
                     std::string& error);
/// The memory that all these take, for the --port ports and those of shared memory; before anything is probed.
uint64_t pool_bytes(const Options& options, const std::vector<PlannedPort>& named);

}  // namespace uroce::netswitch
