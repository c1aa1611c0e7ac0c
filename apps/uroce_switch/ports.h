// Makes the ports that the user asked for: those of shared memory, those named by --port, and those given to EAL.
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
  bool probed = false;  // DPDK has the device

  /// Of a port of DPDK. Others are segments.
  bool needs_device() const { return plan.segment_dir.empty(); }
};

/// Plans and checks the ports that --port names before EAL is started, so that an interface that does not exist gives
/// one line, not a page.
bool plan_named_ports(const Options& options, std::vector<PlannedPort>& ports, std::string& error);
/// To be called after EAL is started: adds the shared memory ports before the others and EAL's own ports after them,
/// and makes the devices of those of DPDK.
bool probe_ports(const Options& options, const SwitchSign& sign, std::vector<PlannedPort>& ports, std::string& error);

/// Returns nullptr, with one line in `error`, when that fails.
std::unique_ptr<SwitchPort> start_port(const PlannedPort& planned, rte_mempool* pool, std::string& error);

/// How many bytes may wait in the port to be received, plus what a neighbour that is a program sends before it looks
/// again.
uint32_t ring_bytes(const PlannedPort& port);

/// Makes memory for the frames of all ports. Returns nullptr, with one line in `error`, when there is not enough.
rte_mempool* make_shared_pool(const Options& options, const std::vector<PlannedPort>& ports, std::string& error);
/// The pool into which port `number` receives: `shared`, or one of its own that lives as long as the process.
rte_mempool* pool_of(const Options& options, const PlannedPort& port, size_t number, rte_mempool* shared,
                     std::string& error);
/// The memory that all these pools take, for the ports of --port and those of shared memory. May be called before
/// anything is probed.
uint64_t pool_bytes(const Options& options, const std::vector<PlannedPort>& named);

}  // namespace uroce::netswitch
