// A running topology: hosts with the production engine, switches of the fabric, and cables. Addresses, routes and
// neighbour tables are filled in, so that already the first frame carries data of the program.
//
// Host number i (in the topology's order) has the address 10.x.y.z/8 with 10.0.0.1 + i, and the MAC 02:00:00:x:y:z.
// A host has one NIC: one cable.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fabric/switch_config.h"
#include "sim/routes.h"
#include "sim/topology.h"
#include "sim/world.h"

namespace uroce::sim {

struct NetworkConfig {
  EngineConfig engine;  // addresses and the port's speed are filled in
  NicConfig nic{4, 8192, true};
  Duration turn_delay{};                                     // how long after an arrival the host's engine runs
  std::vector<std::pair<std::string, Duration>> slow_hosts;  // hosts with their own turn delays, by name
  fabric::SwitchConfig switches;    // ports are filled in, with more headroom where the engine does flow control
  fabric::ImpairmentConfig faults;  // on every cable, in both directions
  bool preload_neighbours = true;   // false: hosts ask each other by ARP, and switches flood along a tree
};

class Network {
 public:
  /// `error` is empty when it worked; otherwise the network must not be used.
  Network(const Topology& topology, const NetworkConfig& config, uint64_t seed, std::string& error);

  World& world() { return world_; }
  const Topology& topology() const { return topology_; }

  uint32_t host_count() const { return static_cast<uint32_t>(hosts_.size()); }
  Host& host(uint32_t number) { return *hosts_[number]; }
  const std::string& host_name(uint32_t number) const { return topology_.nodes[host_nodes_[number]].name; }
  /// The number of the host with that name, or host_count().
  uint32_t find_host(std::string_view name) const;
  static IpAddress host_ip(uint32_t number) { return IpAddress::v4(0x0A000001u + number); }
  static MacAddress host_mac(uint32_t number);
  /// The row of that address in a host's GID table.
  static constexpr uint8_t kSgidIndex = 1;
  /// Topology::flows as host numbers.
  std::vector<std::pair<uint32_t, uint32_t>> flows() const;

  /// A port of a switch, at which one direction of a cable begins.
  struct Egress {
    SimSwitch* node;
    fabric::PortId port;
    std::string name;  // "switch>peer"
  };
  const std::vector<Egress>& egresses() const { return egresses_; }
  const std::vector<SimSwitch*>& switches() const { return switches_; }
  /// The cable of Topology::links[link].
  const Cable& cable(uint32_t link) const { return cables_[link]; }
  /// "A_B", by the names of its ends.
  std::string cable_name(uint32_t link) const;
  /// The number of the cable of that name, in either direction, or links.size().
  uint32_t find_cable(std::string_view name) const;

  /// One direction of a cable, with its traffic and pauses.
  struct Direction {
    std::string name;     // "from>to"
    uint64_t frames = 0;  // sent, including pause frames
    uint64_t bytes = 0;
    uint64_t pauses = 0;  // times that `to` stopped `from`, without the repetitions
    Duration paused{};    // how long `from` had to be silent (with a NIC's own flow control: while it had data)
  };
  /// Both directions of all cables, a to b before b to a.
  std::vector<Direction> directions();

  /// The cables of one of the shortest paths between two hosts; empty when there is none.
  std::vector<TopologyLink> path(uint32_t from, uint32_t to) const;

 private:
  std::string check() const;
  void make_nodes(const NetworkConfig& config, std::string& error);
  void make_cables(const NetworkConfig& config);
  void make_routes();
  FrameSink& entry(uint32_t node, uint16_t port);
  uint64_t pauses_sent(uint32_t node, uint16_t port);
  Duration paused_for(uint32_t node, uint16_t port);

  Topology topology_;
  std::vector<std::vector<TopologyPort>> ports_;
  World world_;
  std::vector<uint32_t> host_nodes_;      // host number -> node
  std::vector<uint32_t> number_of_node_;  // node -> host number, or number in switches_
  std::vector<Host*> hosts_;
  std::vector<SimSwitch*> switches_;
  std::vector<Cable> cables_;
  std::vector<Egress> egresses_;
};

}  // namespace uroce::sim
