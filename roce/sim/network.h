// A topology that runs: hosts with the production engine, switches of the fabric, cables; addresses, routes and
// neighbour tables filled in, so that the first frame is already the program's.
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
  Duration turn_delay{};                                     // how long a host takes to look at what arrived
  std::vector<std::pair<std::string, Duration>> slow_hosts;  // their own turn delays, by name
  fabric::SwitchConfig switches;    // ports are filled in, with more headroom where the engine does flow control
  fabric::ImpairmentConfig faults;  // of every cable, both directions
  bool preload_neighbours = true;   // false: hosts ask each other by ARP, and switches flood along a tree
};

class Network {
 public:
  /// Empty `error` when it worked; otherwise the network is of no use.
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
  /// Row in a host's GID table of that address.
  static constexpr uint8_t kSgidIndex = 1;
  /// Topology::flows as host numbers.
  std::vector<std::pair<uint32_t, uint32_t>> flows() const;

  /// A switch's port that is the start of a cable.
  struct Egress {
    SimSwitch* node;
    fabric::PortId port;
    std::string name;  // "switch>peer"
  };
  const std::vector<Egress>& egresses() const { return egresses_; }
  const std::vector<SimSwitch*>& switches() const { return switches_; }
  /// Of Topology::links, in the same order.
  const Cable& cable(uint32_t link) const { return cables_[link]; }
  /// "A_B", by the names of its ends.
  std::string cable_name(uint32_t link) const;
  /// The cable of that name, in either direction, or links.size().
  uint32_t find_cable(std::string_view name) const;

  /// One direction of a cable, and what pauses do to it.
  struct Direction {
    std::string name;     // "from>to"
    uint64_t frames = 0;  // that were sent, with pause frames
    uint64_t bytes = 0;
    uint64_t pauses = 0;  // times that `to` stopped `from`, without the repetitions
    Duration paused{};    // for which `from` had to be silent; a NIC's own flow control: and had something to send
  };
  /// Of all cables, a to b before b to a.
  std::vector<Direction> directions();

  /// The cables between two hosts by one of the shortest ways; empty: there is none.
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
