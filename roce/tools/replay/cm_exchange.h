// Connection management in a capture: each connection, or SIDR request for a datagram service, with its
// messages.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cm/mad.h"
#include "lint/packet.h"
#include "uroce/time.h"

namespace uroce::replay {

struct CmMad {
  uint64_t frame = 0;
  Instant time{};
  bool from_active = false;
  bool repeated = false;  // its sender sent the same before
  cm::Attribute attribute{};
  cm::MadBytes bytes{};
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
};

struct CmExchange {
  IpAddress active;  // the requester
  IpAddress passive;
  uint32_t active_id = 0;
  std::vector<CmMad> mads;  // the first one is a REQ or a SIDR_REQ
};

/// "192.168.0.1 -> 192.168.0.2 cm 0x11223344"
std::string describe(const CmExchange& exchange);

/// Sorts messages into exchanges.
class CmSorter {
 public:
  /// A packet to QP 1. False when it belongs to no exchange whose beginning was seen.
  bool add(const lint::Packet& packet);
  std::vector<CmExchange> take() { return std::move(exchanges_); }

 private:
  std::vector<CmExchange> exchanges_;
  std::vector<std::unordered_set<std::string>> seen_;        // of each exchange: messages by their sender
  using Key = std::pair<std::array<uint8_t, 16>, uint32_t>;  // address and ID
  std::map<Key, size_t> by_active_;                          // the newest with this ID
  std::map<Key, size_t> by_passive_;
};

}  // namespace uroce::replay
