// Shortest paths through a topology.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/topology.h"

namespace uroce::sim {

/// Every cable end of a node is a port: ports are numbered in the order of Topology::links.
struct TopologyPort {
  uint32_t link = 0;  // index into Topology::links
  uint32_t peer = 0;  // node at the other end
};
std::vector<std::vector<TopologyPort>> ports_of(const Topology& topology);

/// For each node, the ports on shortest paths (in cables) to one host. Hosts forward nothing. A node from which the
/// host cannot be reached has none.
std::vector<std::vector<uint16_t>> next_ports(const Topology& topology,
                                              const std::vector<std::vector<TopologyPort>>& ports, uint32_t host);

/// The cables of one shortest path between two hosts, by the lowest port numbers; empty when there is none.
std::vector<uint32_t> a_path(const Topology& topology, const std::vector<std::vector<TopologyPort>>& ports,
                             uint32_t from, uint32_t to);

/// For each port of each node, whether it belongs to one spanning tree, so that floods end in networks with loops.
std::vector<std::vector<bool>> spanning_tree(const Topology& topology,
                                             const std::vector<std::vector<TopologyPort>>& ports);

}  // namespace uroce::sim
