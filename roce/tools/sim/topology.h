// The description of a network: hosts, switches, and the cables between them. `Network` builds it and makes it run.
//
// A topology is built in, with a name, or is read from a text file:
//
//   # hosts, switches, cables with rate and one-way delay; flows that are of interest are optional
//   host h[0-3]
//   switch s0 s1
//   link h[0-1] s0 100G 1us
//   link h[2-3] s1 100G 1us
//   link s0 s1 40G 5us
//   flow h0 h2
//
// `x[A-B]` stands for that many names; in a `link` or `flow` line two ranges of the same length go together one by one,
// and a single name goes with each of a range.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "uroce/time.h"

namespace uroce::sim {

struct TopologyNode {
  std::string name;
  bool is_host = false;
};

struct TopologyLink {
  uint32_t a = 0;  // indices into Topology::nodes
  uint32_t b = 0;
  uint64_t bits_per_second = 0;
  Duration delay;
};

struct Topology {
  std::string name;
  std::vector<TopologyNode> nodes;
  std::vector<TopologyLink> links;
  /// Senders and receivers of the flows that are of interest in this topology, as node indices. May be empty.
  std::vector<std::pair<uint32_t, uint32_t>> flows;

  uint32_t add(std::string node_name, bool is_host);
  uint32_t add_host(std::string node_name) { return add(std::move(node_name), true); }
  uint32_t add_switch(std::string node_name) { return add(std::move(node_name), false); }
  void connect(uint32_t a, uint32_t b, uint64_t bits_per_second, Duration delay) {
    links.push_back({a, b, bits_per_second, delay});
  }
  /// The index of a node, or nodes.size().
  uint32_t find(std::string_view node_name) const;
  /// The node indices of all hosts, in the order in which they were added.
  std::vector<uint32_t> hosts() const;
};

/// Values that the built-in topologies leave open.
struct TopologyOptions {
  uint64_t host_bits_per_second = 100'000'000'000;
  uint64_t core_bits_per_second = 0;  // between switches; 0: as the hosts' (hpcc: four times as much)
  Duration delay = microseconds(1);   // of every cable
};

/// `spec` is NAME or NAME:NUMBER[:NUMBER...]; see `topology_help`. `error` is empty when it worked.
Topology build_topology(std::string_view spec, const TopologyOptions& options, std::string& error);
/// One line for each built-in topology.
std::string topology_help();
/// Reads the text format above, which contains rates and delays. `error` is empty when it worked.
Topology parse_topology(std::string_view text, std::string& error);

/// "100G", "2.5G", "40M", "1000" as bits per second; "1us", "500ns", "2ms", "1s" as a time; "64k", "1M", "30000" (k and
/// M are powers of ten, ki and Mi of two) as bytes. A time is 10^6 s at most. Returns false for anything else.
bool parse_rate(std::string_view text, uint64_t& bits_per_second);
bool parse_duration(std::string_view text, Duration& duration);
bool parse_bytes(std::string_view text, uint64_t& bytes);

/// The least rate of a cable, in bits per second. At less, a frame takes minutes, and sums of such times do not fit 64
/// bits.
inline constexpr uint64_t kRateMin = 1000;

}  // namespace uroce::sim
