#include "sim/network.h"

#include <algorithm>

#include "base/check.h"
#include "engine/neighbours.h"
#include "engine/priority_flow_control.h"
#include "transport/counters.h"

namespace uroce::sim {

MacAddress Network::host_mac(uint32_t number) {
  const uint32_t n = number + 1;
  return {{0x02, 0, 0, static_cast<uint8_t>(n >> 16), static_cast<uint8_t>(n >> 8), static_cast<uint8_t>(n)}};
}

namespace {

/// How many bytes an engine that does flow control itself sends after a pause frame beyond what a NIC would: those in
/// its queue, and those that it hands out before it looks at the pause frame.
uint64_t late_bytes(const NetworkConfig& config, const TopologyLink& link, Duration turn_delay) {
  const double bytes_per_ns = static_cast<double>(link.bits_per_second) / 8e9;
  return config.nic.tx_bytes + config.engine.max_frame_bytes +
         static_cast<uint64_t>(bytes_per_ns * static_cast<double>(turn_delay.ns));
}

Duration turn_delay_of(const NetworkConfig& config, const std::string& host) {
  for (const auto& [name, delay] : config.slow_hosts) {
    if (name == host) return delay;
  }
  return config.turn_delay;
}

}  // namespace

Network::Network(const Topology& topology, const NetworkConfig& config, uint64_t seed, std::string& error)
    : topology_(topology), ports_(ports_of(topology)), world_(seed), host_nodes_(topology.hosts()) {
  error = check();
  if (!error.empty()) return;
  make_nodes(config, error);
  if (!error.empty()) return;
  make_cables(config);
  make_routes();
  ensure(hosts_.size() == host_nodes_.size(), "hosts are numbered as in the topology");
  ensure(cables_.size() == topology_.links.size(), "cables are numbered as in the topology");
  if (!config.preload_neighbours) return;
  for (uint32_t i = 0; i < hosts_.size(); i++) {
    for (uint32_t j = 0; j < hosts_.size(); j++) {
      if (i != j) hosts_[i]->engine().neighbours().set_static(host_ip(j), 0, host_mac(j));
    }
  }
}

std::string Network::check() const {
  if (host_nodes_.size() > NeighbourTable::kMax) {
    return "more than " + std::to_string(NeighbourTable::kMax) + " hosts";
  }
  for (uint32_t node = 0; node < topology_.nodes.size(); node++) {
    const TopologyNode& it = topology_.nodes[node];
    if (it.is_host && ports_[node].size() != 1) return "host '" + it.name + "' needs exactly one cable";
  }
  for (const uint32_t host : host_nodes_) {
    if (a_path(topology_, ports_, host_nodes_[0], host).empty() && host != host_nodes_[0]) {
      return "no way from '" + topology_.nodes[host_nodes_[0]].name + "' to '" + topology_.nodes[host].name + "'";
    }
  }
  return "";
}

void Network::make_nodes(const NetworkConfig& config, std::string& error) {
  const auto tree = spanning_tree(topology_, ports_);
  number_of_node_.resize(topology_.nodes.size());
  for (uint32_t node = 0; node < topology_.nodes.size(); node++) {
    if (topology_.nodes[node].is_host) {
      const auto number = static_cast<uint32_t>(hosts_.size());
      EngineConfig engine = config.engine;
      engine.mac = host_mac(number);
      engine.addresses = {{host_ip(number), 8, 0}};
      engine.congestion.link_bits_per_second = engine.pfc.bits_per_second =
          topology_.links[ports_[node][0].link].bits_per_second;
      Host& host = world_.add_host(engine);
      host.set_turn_delay(turn_delay_of(config, topology_.nodes[node].name));
      number_of_node_[node] = number;
      hosts_.push_back(&host);
      continue;
    }
    fabric::SwitchConfig plan = config.switches;
    plan.ports.clear();
    for (uint32_t i = 0; i < ports_[node].size(); i++) {
      const TopologyLink& link = topology_.links[ports_[node][i].link];
      fabric::PortConfig port;
      port.bits_per_second = link.bits_per_second;
      port.cable_delay = link.delay;
      port.flood = tree[node][i];
      const TopologyNode& peer = topology_.nodes[ports_[node][i].peer];
      if (peer.is_host && config.engine.pfc.lossless != 0) {
        port.headroom_bytes = static_cast<uint32_t>(headroom_of(config.switches, port) +
                                                    late_bytes(config, link, turn_delay_of(config, peer.name)));
      }
      plan.ports.push_back(port);
    }
    error = fabric::check_config(plan);
    if (!error.empty()) {
      error = "switch '" + topology_.nodes[node].name + "': " + error;
      return;
    }
    number_of_node_[node] = static_cast<uint32_t>(switches_.size());
    switches_.push_back(&world_.add_switch(plan));
  }
}

FrameSink& Network::entry(uint32_t node, uint16_t port) {
  if (topology_.nodes[node].is_host) return hosts_[number_of_node_[node]]->port();
  return switches_[number_of_node_[node]]->ingress(port);
}

void Network::make_cables(const NetworkConfig& config) {
  std::vector<uint16_t> used(topology_.nodes.size());
  for (const TopologyLink& link : topology_.links) {
    const LinkConfig wire{link.delay, link.bits_per_second, config.faults};
    const uint32_t ends[2] = {link.a, link.b};
    const uint16_t ports[2] = {used[link.a]++, used[link.b]++};
    Link* out[2];
    for (unsigned i = 0; i < 2; i++) {
      const uint32_t from = ends[i];
      out[i] = &world_.add_link(entry(ends[1 - i], ports[1 - i]), wire);
      if (topology_.nodes[from].is_host) {
        NicConfig nic = config.nic;
        nic.mac = host_mac(number_of_node_[from]);
        nic.pfc.bits_per_second = link.bits_per_second;
        hosts_[number_of_node_[from]]->port().connect(world_.events(), *out[i], nic);
        continue;
      }
      SimSwitch& node = *switches_[number_of_node_[from]];
      node.connect(ports[i], *out[i]);
      egresses_.push_back({&node, ports[i], topology_.nodes[from].name + ">" + topology_.nodes[ends[1 - i]].name});
    }
    cables_.push_back({out[0], out[1]});
  }
}

void Network::make_routes() {
  for (uint32_t number = 0; number < hosts_.size(); number++) {
    const auto next = next_ports(topology_, ports_, host_nodes_[number]);
    for (uint32_t node = 0; node < topology_.nodes.size(); node++) {
      if (topology_.nodes[node].is_host || next[node].empty()) continue;
      switches_[number_of_node_[node]]->fabric().add_route(host_mac(number), next[node]);
    }
  }
}

uint64_t Network::pauses_sent(uint32_t node, uint16_t port) {
  if (topology_.nodes[node].is_host) {
    Host& host = *hosts_[number_of_node_[node]];
    return host.port().counters().pauses_sent + host.engine().flow_control().pauses_begun();
  }
  uint64_t sum = 0;
  for (const uint64_t n : switches_[number_of_node_[node]]->fabric().counters(port).xoff_sent) sum += n;
  return sum;
}

/// The time of the priority that was paused longest: mostly priorities are paused together, or there is only one.
Duration Network::paused_for(uint32_t node, uint16_t port) {
  int64_t most = 0;
  for (unsigned i = 0; i < kPriorities; i++) {
    if (topology_.nodes[node].is_host) {
      Host& host = *hosts_[number_of_node_[node]];
      most = std::max({most, static_cast<int64_t>(host.port().counters().paused_ns),
                       host.engine().flow_control().paused_for(i, world_.now()).ns});
    } else {
      fabric::Switch& fabric = switches_[number_of_node_[node]]->fabric();
      most = std::max(most, static_cast<int64_t>(fabric.paused_ns(port, i, world_.now())));
    }
  }
  return {most};
}

std::vector<Network::Direction> Network::directions() {
  std::vector<uint16_t> used(topology_.nodes.size());
  std::vector<Direction> all;
  for (size_t i = 0; i < topology_.links.size(); i++) {
    const uint32_t ends[2] = {topology_.links[i].a, topology_.links[i].b};
    const uint16_t ports[2] = {used[ends[0]]++, used[ends[1]]++};
    const Link* const links[2] = {cables_[i].a_to_b, cables_[i].b_to_a};
    for (unsigned from = 0; from < 2; from++) {
      const unsigned to = 1 - from;
      all.push_back({topology_.nodes[ends[from]].name + ">" + topology_.nodes[ends[to]].name,
                     links[from]->counters().frames, links[from]->counters().bytes, pauses_sent(ends[to], ports[to]),
                     paused_for(ends[from], ports[from])});
    }
  }
  return all;
}

uint32_t Network::find_host(std::string_view name) const {
  uint32_t number = 0;
  while (number < host_count() && host_name(number) != name) number++;
  return number;
}

std::vector<std::pair<uint32_t, uint32_t>> Network::flows() const {
  std::vector<std::pair<uint32_t, uint32_t>> numbers;
  for (const auto& [from, to] : topology_.flows) numbers.emplace_back(number_of_node_[from], number_of_node_[to]);
  return numbers;
}

std::string Network::cable_name(uint32_t link) const {
  const TopologyLink& it = topology_.links[link];
  return topology_.nodes[it.a].name + "_" + topology_.nodes[it.b].name;
}

uint32_t Network::find_cable(std::string_view name) const {
  uint32_t link = 0;
  for (; link < topology_.links.size(); link++) {
    const TopologyLink& it = topology_.links[link];
    if (cable_name(link) == name || topology_.nodes[it.b].name + "_" + topology_.nodes[it.a].name == name) break;
  }
  return link;
}

std::vector<TopologyLink> Network::path(uint32_t from, uint32_t to) const {
  std::vector<TopologyLink> links;
  for (const uint32_t link : a_path(topology_, ports_, host_nodes_[from], host_nodes_[to])) {
    links.push_back(topology_.links[link]);
  }
  return links;
}

}  // namespace uroce::sim
