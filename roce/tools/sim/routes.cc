#include "sim/routes.h"

#include "base/check.h"

namespace uroce::sim {

namespace {

constexpr uint32_t kFar = UINT32_MAX;

/// How many cables each node is away from a host. Other hosts are ends: nothing passes through them.
std::vector<uint32_t> distances(const Topology& topology, const std::vector<std::vector<TopologyPort>>& ports,
                                uint32_t host) {
  std::vector<uint32_t> away(topology.nodes.size(), kFar);
  std::vector<uint32_t> queue{host};
  away[host] = 0;
  for (size_t at = 0; at < queue.size(); at++) {
    const uint32_t node = queue[at];
    if (node != host && topology.nodes[node].is_host) continue;
    for (const TopologyPort& port : ports[node]) {
      if (away[port.peer] != kFar) continue;
      away[port.peer] = away[node] + 1;
      queue.push_back(port.peer);
    }
  }
  return away;
}

bool leads_closer(const Topology& topology, const TopologyPort& port, const std::vector<uint32_t>& away,
                  uint32_t node) {
  return away[node] != kFar && away[port.peer] != kFar && away[port.peer] + 1 == away[node] &&
         (away[port.peer] == 0 || !topology.nodes[port.peer].is_host);
}

}  // namespace

std::vector<std::vector<TopologyPort>> ports_of(const Topology& topology) {
  std::vector<std::vector<TopologyPort>> ports(topology.nodes.size());
  for (uint32_t i = 0; i < topology.links.size(); i++) {
    const TopologyLink& link = topology.links[i];
    ports[link.a].push_back({i, link.b});
    ports[link.b].push_back({i, link.a});
  }
  return ports;
}

std::vector<std::vector<uint16_t>> next_ports(const Topology& topology,
                                              const std::vector<std::vector<TopologyPort>>& ports, uint32_t host) {
  const auto away = distances(topology, ports, host);
  std::vector<std::vector<uint16_t>> next(topology.nodes.size());
  for (uint32_t node = 0; node < topology.nodes.size(); node++) {
    for (size_t i = 0; i < ports[node].size(); i++) {
      if (leads_closer(topology, ports[node][i], away, node)) next[node].push_back(static_cast<uint16_t>(i));
    }
  }
  return next;
}

std::vector<uint32_t> a_path(const Topology& topology, const std::vector<std::vector<TopologyPort>>& ports,
                             uint32_t from, uint32_t to) {
  const auto next = next_ports(topology, ports, to);
  std::vector<uint32_t> links;
  for (uint32_t node = from; node != to;) {
    if (next[node].empty()) return {};
    const TopologyPort& port = ports[node][next[node][0]];
    ensure(links.size() < topology.nodes.size(), "a shortest path passes no node twice");
    links.push_back(port.link);
    node = port.peer;
  }
  return links;
}

std::vector<std::vector<bool>> spanning_tree(const Topology& topology,
                                             const std::vector<std::vector<TopologyPort>>& ports) {
  std::vector<bool> in_tree(topology.links.size());
  std::vector<bool> reached(topology.nodes.size());
  for (uint32_t root = 0; root < topology.nodes.size(); root++) {
    if (reached[root] || topology.nodes[root].is_host) continue;
    std::vector<uint32_t> queue{root};
    reached[root] = true;
    for (size_t at = 0; at < queue.size(); at++) {
      for (const TopologyPort& port : ports[queue[at]]) {
        const bool host = topology.nodes[port.peer].is_host;
        if (reached[port.peer] && !host) continue;
        in_tree[port.link] = true;
        if (!host) queue.push_back(port.peer);
        reached[port.peer] = true;
      }
    }
  }
  std::vector<std::vector<bool>> tree(topology.nodes.size());
  for (uint32_t node = 0; node < topology.nodes.size(); node++) {
    for (const TopologyPort& port : ports[node]) tree[node].push_back(in_tree[port.link]);
  }
  return tree;
}

}  // namespace uroce::sim
