// Follows connection management from outside: which QPs belong together, and whether the ids fit.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lint/mad.h"
#include "uroce/address.h"

namespace uroce::lint {

class CmTracker {
 public:
  struct End {
    IpAddress ip;
    uint32_t id = 0;  // communication id
    uint32_t qpn = 0;
    Psn starting_psn{};
    uint8_t responder_resources = 0;
  };
  /// A connection between two QPs, of which both REQ and REP were seen.
  struct Established {
    End active;
    End passive;
    uint8_t service = 0;
  };

  /// Checks the message against what came before. Returns the connection when this message completes it.
  std::optional<Established> on_message(const IpAddress& src, const IpAddress& dst, const CmMessage& message,
                                        std::vector<Issue>& issues);

 private:
  struct Exchange {
    End active;
    End passive;
    uint8_t service = 0;
    bool has_passive = false;
    bool established = false;
  };
  struct Key {
    IpAddress ip;
    uint64_t number = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };

  Exchange* find(const IpAddress& src, const IpAddress& dst, const CmMessage& message);
  void on_req(const IpAddress& src, const IpAddress& dst, const CmMessage& message);
  std::optional<Established> on_rep(Exchange& exchange, const CmMessage& message);

  std::vector<Exchange> exchanges_;
  std::unordered_map<Key, uint32_t, KeyHash> by_transaction_;  // by the address of the active side
  std::unordered_map<Key, uint32_t, KeyHash> by_id_;           // by the address that chose the id
};

}  // namespace uroce::lint
