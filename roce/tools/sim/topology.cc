// The built-in topologies.
#include "sim/topology.h"

#include <array>
#include <charconv>

namespace uroce::sim {

uint32_t Topology::add(std::string node_name, bool is_host) {
  nodes.push_back({std::move(node_name), is_host});
  return static_cast<uint32_t>(nodes.size() - 1);
}

uint32_t Topology::find(std::string_view node_name) const {
  uint32_t index = 0;
  while (index < nodes.size() && nodes[index].name != node_name) index++;
  return index;
}

std::vector<uint32_t> Topology::hosts() const {
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < nodes.size(); i++) {
    if (nodes[i].is_host) indices.push_back(i);
  }
  return indices;
}

namespace {

using Numbers = std::array<uint32_t, 3>;

class Builder {
 public:
  Builder(std::string_view name, const TopologyOptions& options) : options_(options) { drawing_.name = name; }

  uint32_t host(const std::string& name, uint32_t at) {
    const uint32_t node = drawing_.add_host(name);
    drawing_.connect(node, at, options_.host_bits_per_second, options_.delay);
    return node;
  }
  uint32_t lone_host(const std::string& name) { return drawing_.add_host(name); }
  uint32_t node(const std::string& name) { return drawing_.add_switch(name); }
  void cable(uint32_t a, uint32_t b) {
    const uint64_t core = options_.core_bits_per_second;
    drawing_.connect(a, b, core != 0 ? core : options_.host_bits_per_second * core_factor_, options_.delay);
  }
  void set_core_factor(uint64_t factor) { core_factor_ = factor; }
  void flow(uint32_t from, uint32_t to) { drawing_.flows.emplace_back(from, to); }
  Topology take() { return std::move(drawing_); }

 private:
  Topology drawing_;
  const TopologyOptions& options_;
  uint64_t core_factor_ = 1;
};

std::string numbered(const char* name, uint32_t number) { return name + std::to_string(number); }
std::string numbered(const char* name, uint32_t first, uint32_t second) {
  return name + std::to_string(first) + "-" + std::to_string(second);
}

void back_to_back(Builder& b, const Numbers&) {
  const uint32_t first = b.lone_host("h0");
  const uint32_t second = b.host("h1", first);
  b.flow(first, second);
}

void star(Builder& b, const Numbers& n) {
  const uint32_t hub = b.node("s0");
  for (uint32_t i = 0; i < n[0]; i++) b.host(numbered("h", i), hub);
}

void ring(Builder& b, const Numbers& n) {
  std::vector<uint32_t> switches;
  for (uint32_t i = 0; i < n[0]; i++) {
    switches.push_back(b.node(numbered("s", i)));
    for (uint32_t j = 0; j < n[1]; j++) b.host(n[1] == 1 ? numbered("h", i) : numbered("h", i, j), switches.back());
  }
  for (uint32_t i = 0; i < n[0]; i++) {
    if (n[0] > 2 || i == 0) b.cable(switches[i], switches[(i + 1) % n[0]]);
  }
}

void mesh(Builder& b, const Numbers& n) {
  std::vector<uint32_t> switches;
  for (uint32_t i = 0; i < n[0]; i++) {
    switches.push_back(b.node(numbered("s", i)));
    for (uint32_t j = 0; j < n[1]; j++) b.host(n[1] == 1 ? numbered("h", i) : numbered("h", i, j), switches.back());
    for (uint32_t j = 0; j < i; j++) b.cable(switches[j], switches[i]);
  }
}

void dumbbell(Builder& b, const Numbers& n) {
  const uint32_t left = b.node("left");
  const uint32_t right = b.node("right");
  b.cable(left, right);
  for (uint32_t i = 0; i < n[0]; i++) {
    // In two statements, because the compiler chooses which argument of a call is evaluated first.
    const uint32_t to = b.host(numbered("b", i), right);
    const uint32_t from = b.host(numbered("a", i), left);
    b.flow(from, to);
  }
}

/// One flow takes the long way over every hop, and on every hop there is one flow over just this hop.
void parking_lot(Builder& b, const Numbers& n) {
  std::vector<uint32_t> switches;
  for (uint32_t i = 0; i <= n[0]; i++) switches.push_back(b.node(numbered("s", i)));
  for (uint32_t i = 0; i < n[0]; i++) b.cable(switches[i], switches[i + 1]);
  const uint32_t from = b.host("long-a", switches.front());
  b.flow(from, b.host("long-b", switches.back()));
  for (uint32_t i = 0; i < n[0]; i++) {
    const uint32_t cross = b.host(numbered("a", i), switches[i]);
    b.flow(cross, b.host(numbered("b", i), switches[i + 1]));
  }
}

/// Four racks below four leaves and two spines: four senders of the first rack and two of the third send to one
/// receiver in the fourth, and a flow from the first rack to the second has nothing to do with them.
void victim(Builder& b, const Numbers&) {
  uint32_t tors[4];
  uint32_t leaves[4];
  for (uint32_t i = 0; i < 4; i++) tors[i] = b.node(numbered("t", i + 1));
  for (uint32_t i = 0; i < 4; i++) leaves[i] = b.node(numbered("l", i + 1));
  for (uint32_t i = 0; i < 4; i++) {
    b.cable(tors[i], leaves[i / 2 * 2]);
    b.cable(tors[i], leaves[i / 2 * 2 + 1]);
  }
  for (uint32_t spine = 1; spine <= 2; spine++) {
    const uint32_t node = b.node(numbered("s", spine));
    for (const uint32_t leaf : leaves) b.cable(leaf, node);
  }
  const uint32_t victim_from = b.host("victim-a", tors[0]);
  b.flow(victim_from, b.host("victim-b", tors[1]));
  const uint32_t receiver = b.host("r", tors[3]);
  for (uint32_t i = 1; i <= 4; i++) b.flow(b.host(numbered("h1", i), tors[0]), receiver);
  for (uint32_t i = 1; i <= 2; i++) b.flow(b.host(numbered("h3", i), tors[2]), receiver);
}

void leaf_spine(Builder& b, const Numbers& n) {
  std::vector<uint32_t> spines;
  for (uint32_t i = 0; i < n[1]; i++) spines.push_back(b.node(numbered("spine", i)));
  for (uint32_t leaf = 0; leaf < n[0]; leaf++) {
    const uint32_t node = b.node(numbered("leaf", leaf));
    for (const uint32_t spine : spines) b.cable(node, spine);
    for (uint32_t i = 0; i < n[2]; i++) b.host(numbered("h", leaf * n[2] + i), node);
  }
}

/// k pods of k/2 edge and k/2 aggregation switches; (k/2)^2 cores; k/2 hosts at each edge switch.
void fat_tree(Builder& b, const Numbers& n) {
  const uint32_t half = n[0] / 2;
  std::vector<uint32_t> cores;
  for (uint32_t i = 0; i < half * half; i++) cores.push_back(b.node(numbered("core", i)));
  uint32_t hosts = 0;
  for (uint32_t pod = 0; pod < n[0]; pod++) {
    std::vector<uint32_t> aggregation;
    for (uint32_t i = 0; i < half; i++) {
      aggregation.push_back(b.node(numbered("agg", pod, i)));
      for (uint32_t j = 0; j < half; j++) b.cable(aggregation.back(), cores[i * half + j]);
    }
    for (uint32_t i = 0; i < half; i++) {
      const uint32_t edge = b.node(numbered("edge", pod, i));
      for (const uint32_t above : aggregation) b.cable(edge, above);
      for (uint32_t j = 0; j < half; j++) b.host(numbered("h", hosts++), edge);
    }
  }
}

/// 320 hosts: 5 pods of 4 racks of 16, 4 aggregation switches a pod, 4 groups of 4 cores.
void hpcc(Builder& b, const Numbers&) {
  constexpr uint32_t kPods = 5;
  constexpr uint32_t kRacks = 4;
  constexpr uint32_t kGroups = 4;
  constexpr uint32_t kCores = 4;  // in a group
  constexpr uint32_t kHosts = 16;
  b.set_core_factor(4);
  std::vector<uint32_t> cores;
  for (uint32_t i = 0; i < kGroups * kCores; i++) cores.push_back(b.node(numbered("core", i)));
  uint32_t hosts = 0;
  for (uint32_t pod = 0; pod < kPods; pod++) {
    std::vector<uint32_t> aggregation;
    for (uint32_t group = 0; group < kGroups; group++) {
      aggregation.push_back(b.node(numbered("agg", pod, group)));
      for (uint32_t i = 0; i < kCores; i++) b.cable(aggregation.back(), cores[group * kCores + i]);
    }
    for (uint32_t rack = 0; rack < kRacks; rack++) {
      const uint32_t tor = b.node(numbered("tor", pod, rack));
      for (const uint32_t above : aggregation) b.cable(tor, above);
      for (uint32_t i = 0; i < kHosts; i++) b.host(numbered("h", hosts++), tor);
    }
  }
}

struct TopologyKind {
  const char* name;
  const char* numbers;  // how they are called
  const char* what;
  Numbers defaults;
  Numbers least;
  Numbers most;
  void (*build)(Builder& builder, const Numbers& numbers);
};

constexpr TopologyKind kTopologyKinds[] = {
    {"back-to-back", "", "two hosts on a cable", {}, {}, {}, back_to_back},
    {"star", "HOSTS", "hosts at one switch", {4}, {1}, {4096}, star},
    {"ring", "SWITCHES:HOSTS", "a ring of switches, each with hosts", {4, 1}, {2, 1}, {64, 1000}, ring},
    {"mesh", "SWITCHES:HOSTS", "every switch joined to every other", {4, 1}, {2, 1}, {64, 1000}, mesh},
    {"dumbbell", "PAIRS", "two switches, and pairs that meet on the cable between them", {4}, {1}, {1000}, dumbbell},
    {"parking-lot", "HOPS", "one flow over all hops, one more on each of them", {2}, {1}, {64}, parking_lot},
    {"victim", "", "a crowd to one receiver, and a flow that only shares their way", {}, {}, {}, victim},
    {"leaf-spine",
     "LEAVES:SPINES:HOSTS",
     "every leaf joined to every spine; hosts of each leaf",
     {4, 2, 4},
     {1, 1, 1},
     {256, 64, 1000},
     leaf_spine},
    {"fat-tree", "K", "k pods, k^3/4 hosts", {4}, {2}, {16}, fat_tree},
    {"hpcc", "", "320 hosts and 56 switches, four times the rate between switches", {}, {}, {}, hpcc},
};

/// The numbers after the name. False: not as many, or out of range.
bool read_numbers(std::string_view text, const TopologyKind& kind, Numbers& numbers) {
  numbers = kind.defaults;
  for (size_t i = 0; !text.empty(); i++) {
    if (i == numbers.size() || kind.most[i] == 0) return false;
    const size_t colon = text.find(':');
    const std::string_view part = text.substr(0, colon);
    const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), numbers[i]);
    if (status != std::errc() || end != part.data() + part.size()) return false;
    if (numbers[i] < kind.least[i] || numbers[i] > kind.most[i]) return false;
    text = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  }
  return true;
}

}  // namespace

Topology build_topology(std::string_view spec, const TopologyOptions& options, std::string& error) {
  error.clear();
  const size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  const std::string_view rest = colon == std::string_view::npos ? std::string_view() : spec.substr(colon + 1);
  for (const TopologyKind& kind : kTopologyKinds) {
    if (name != kind.name) continue;
    Numbers numbers;
    if (!read_numbers(rest, kind, numbers) || (name == "fat-tree" && numbers[0] % 2 != 0)) {
      error = "'" + std::string(spec) + "': " + kind.name + " takes " +
              (*kind.numbers != 0 ? kind.numbers : "no numbers") + (name == "fat-tree" ? ", which is even" : "");
      return {};
    }
    Builder builder(spec, options);
    kind.build(builder, numbers);
    return builder.take();
  }
  error = "'" + std::string(name) + "' is not a topology";
  return {};
}

std::string topology_help() {
  std::string text;
  for (const TopologyKind& kind : kTopologyKinds) {
    std::string line = std::string("  ") + kind.name + (*kind.numbers != 0 ? ":" : "") + kind.numbers;
    line.resize(line.size() < 34 ? 34 : line.size() + 1, ' ');
    text += line + kind.what + "\n";
  }
  return text;
}

}  // namespace uroce::sim
