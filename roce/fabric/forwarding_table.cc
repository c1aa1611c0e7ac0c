#include "fabric/forwarding_table.h"

#include <algorithm>
#include <bit>

#include "base/big_endian.h"
#include "base/check.h"

namespace uroce::fabric {
namespace {

uint64_t key_of(const uint8_t* mac) { return (uint64_t{load_be16(mac)} << 32) | load_be32(mac + 2); }

/// An index below `count` from the upper half of `random`.
size_t scale(uint64_t random, size_t count) { return static_cast<size_t>((random >> 32) * count >> 32); }

}  // namespace

ForwardingTable::ForwardingTable(const SwitchConfig& config, uint64_t seed)
    : seed_(seed), aging_(config.mac_aging), routes_(64), up_(config.ports.size(), 1) {
  if (config.learning) learned_.resize(std::bit_ceil(std::max<size_t>(config.learned_macs, kBucket)));
}

const ForwardingTable::Entry* ForwardingTable::find_route(uint64_t key) const {
  const size_t mask = routes_.size() - 1;
  for (size_t i = hash(key) & mask;; i = (i + 1) & mask) {
    if (routes_[i].key == key) return &routes_[i];
    if (routes_[i].key == kFree) return nullptr;
  }
}

void ForwardingTable::insert_route(uint64_t key, uint32_t group) {
  const size_t mask = routes_.size() - 1;
  size_t i = hash(key) & mask;
  while (routes_[i].key != kFree && routes_[i].key != key) i = (i + 1) & mask;
  if (routes_[i].key == kFree) route_count_++;
  const std::vector<PortId>& members = groups_[group].members;
  ensure(route_count_ * 2 <= routes_.size(), "half of the table is free, so that every search ends");
  routes_[i] = {key, group, members[0], members.size() == 1};
}

uint32_t ForwardingTable::group_of(std::span<const PortId> ports) {
  for (size_t i = 0; i < groups_.size(); i++) {
    if (std::equal(ports.begin(), ports.end(), groups_[i].members.begin(), groups_[i].members.end())) {
      return static_cast<uint32_t>(i);
    }
  }
  Group group;
  group.members.assign(ports.begin(), ports.end());
  for (const PortId port : ports) {
    if (up_[port] != 0) group.alive.push_back(port);
  }
  groups_.push_back(std::move(group));
  return static_cast<uint32_t>(groups_.size() - 1);
}

bool ForwardingTable::add_route(const MacAddress& mac, std::span<const PortId> ports) {
  if (ports.empty() || ports.size() > kMaxGroupPorts) return false;
  if (std::any_of(ports.begin(), ports.end(), [this](PortId port) { return port >= up_.size(); })) return false;
  if ((route_count_ + 1) * 2 > routes_.size()) {
    std::vector<Entry> old(routes_.size() * 2);
    old.swap(routes_);
    route_count_ = 0;
    for (const Entry& route : old) {
      if (route.key != kFree) insert_route(route.key, route.group);
    }
  }
  insert_route(key_of(mac.bytes.data()), group_of(ports));
  return true;
}

void ForwardingTable::set_port_up(PortId port, bool up) {
  up_[port] = up ? 1 : 0;
  for (Group& group : groups_) {
    group.alive.clear();
    for (const PortId member : group.members) {
      if (up_[member] != 0) group.alive.push_back(member);
    }
  }
  if (!up) forget_port(port);
}

Destination ForwardingTable::find(const uint8_t* mac, Instant now) const {
  const uint64_t key = key_of(mac);
  if (const Entry* route = find_route(key); route != nullptr) {
    if (route->single) return {Destination::Kind::kPort, route->port, 0};
    return {Destination::Kind::kGroup, 0, route->group};
  }
  if (learned_.empty()) return {};
  const size_t bucket = hash(key) & (learned_.size() - 1) & ~(kBucket - 1);
  for (size_t i = bucket; i < bucket + kBucket; i++) {
    if (learned_[i].key == key && now < learned_[i].until) return {Destination::Kind::kPort, learned_[i].port, 0};
  }
  return {};
}

void ForwardingTable::learn(const uint8_t* mac, PortId port, Instant now) {
  if (learned_.empty() || (mac[0] & 1) != 0) return;
  ensure(port < up_.size(), "an address is learned at a port that is there");
  const uint64_t key = key_of(mac);
  const size_t bucket = hash(key) & (learned_.size() - 1) & ~(kBucket - 1);
  size_t oldest = bucket;
  for (size_t i = bucket; i < bucket + kBucket; i++) {
    if (learned_[i].key == key) {
      oldest = i;
      break;
    }
    if (learned_[i].until < learned_[oldest].until) oldest = i;
  }
  learned_[oldest] = {key, now + aging_, port};
}

void ForwardingTable::forget_port(PortId port) {
  for (Learned& entry : learned_) {
    if (entry.key != kFree && entry.port == port) entry = {};
  }
}

std::optional<PortId> ForwardingTable::choose(uint32_t group, uint64_t flow) const {
  const Group& g = groups_[group];
  ensure(!g.members.empty() && g.alive.size() <= g.members.size(), "a group has members, some of them up");
  const PortId first = g.members[scale(flow, g.members.size())];
  if (up_[first] != 0) return first;
  if (g.alive.empty()) return std::nullopt;
  // Uses other bits of the hash, so that the flows of one member do not all go to the same other member.
  return g.alive[scale(flow << 32 | flow >> 32, g.alive.size())];
}

}  // namespace uroce::fabric
