// Where a frame goes: routes that were set, addresses that were learned.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fabric/frame.h"
#include "fabric/switch_config.h"
#include "uroce/address.h"
#include "uroce/time.h"

namespace uroce::fabric {

inline constexpr size_t kMaxGroupPorts = 256;

/// The port that frames leave by, or one of these.
struct Destination {
  enum class Kind : uint8_t {
    kPort,     // `port`
    kGroup,    // `group`: choose by flow
    kUnknown,  // neither route nor learned
  };
  Kind kind = Kind::kUnknown;
  PortId port = 0;
  uint32_t group = 0;
};

class Forwarding {
 public:
  Forwarding(const SwitchConfig& config, uint64_t seed);

  bool add_route(const MacAddress& mac, std::span<const PortId> ports);
  void set_port_up(PortId port, bool up);

  /// `mac` points at six bytes.
  Destination find(const uint8_t* mac, Instant now) const;
  /// A frame from `mac` came in at `port`. Group addresses are not learned.
  void learn(const uint8_t* mac, PortId port, Instant now);
  void forget_port(PortId port);

  /// The member of a group that `flow` goes by; nothing when all are down. Members that are down hand their flows to
  /// the others and get the same ones back; nobody else's flows move.
  std::optional<PortId> choose(uint32_t group, uint64_t flow) const;

 private:
  struct Route {
    uint64_t key = kFree;
    uint32_t group = 0;
    PortId port = 0;      // the group's only member,
    bool single = false;  // if it has but one: then nothing else needs to be looked at
  };
  struct Learned {
    uint64_t key = kFree;
    Instant until{INT64_MIN};
    PortId port = 0;
  };
  struct Group {
    std::vector<PortId> members;
    std::vector<PortId> alive;
  };
  static constexpr uint64_t kFree = UINT64_MAX;
  static constexpr size_t kBucket = 4;

  size_t hash(uint64_t key) const { return static_cast<size_t>((key ^ seed_) * 0x9E3779B97F4A7C15u >> 32); }
  const Route* find_route(uint64_t key) const;
  void insert_route(uint64_t key, uint32_t group);
  uint32_t group_of(std::span<const PortId> ports);

  uint64_t seed_;
  Duration aging_;
  std::vector<Route> routes_;  // open addressing, at most half full
  size_t route_count_ = 0;
  std::vector<Learned> learned_;  // buckets of kBucket: the oldest makes room
  std::vector<Group> groups_;
  std::vector<uint8_t> up_;
};

}  // namespace uroce::fabric
