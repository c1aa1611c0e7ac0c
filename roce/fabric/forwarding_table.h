// Where a frame goes, by configured routes and learned addresses.
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
    kGroup,    // `group`: its port is chosen by flow
    kUnknown,  // there is no route, and the address was not learned
  };
  Kind kind = Kind::kUnknown;
  PortId port = 0;
  uint32_t group = 0;
};

class ForwardingTable {
 public:
  ForwardingTable(const SwitchConfig& config, uint64_t seed);

  bool add_route(const MacAddress& mac, std::span<const PortId> ports);
  void set_port_up(PortId port, bool up);

  /// Where frames to `mac` (six bytes) go.
  Destination find(const uint8_t* mac, Instant now) const;
  /// A frame from `mac` came in at `port`. Group addresses are not learned.
  void learn(const uint8_t* mac, PortId port, Instant now);
  void forget_port(PortId port);

  /// The member of a group by which `flow` leaves; nothing when all are down. The flows of a member that is down go to
  /// the others, and come back when it is up again; no other flows move.
  std::optional<PortId> choose(uint32_t group, uint64_t flow) const;

 private:
  struct Entry {
    uint64_t key = kFree;
    uint32_t group = 0;
    PortId port = 0;      // the group's only member,
    bool single = false;  // if it has just one, so that nothing else has to be looked up
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
  const Entry* find_route(uint64_t key) const;
  void insert_route(uint64_t key, uint32_t group);
  uint32_t group_of(std::span<const PortId> ports);

  uint64_t seed_;
  Duration aging_;
  std::vector<Entry> routes_;  // open addressing, at most half full
  size_t route_count_ = 0;
  std::vector<Learned> learned_;  // in buckets of kBucket; the oldest entry of a full bucket is replaced
  std::vector<Group> groups_;
  std::vector<uint8_t> up_;
};

}  // namespace uroce::fabric
