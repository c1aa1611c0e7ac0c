// Follows connection management from outside: which QPs belong together, and whether every message has its place in the
// exchange.
//
// A message comes after the one that it answers, if the capture shows both directions and began early enough. So
// nothing is reported for exchanges whose REQ was not seen, and a missing message is a doubt until the end of the
// capture shows whether the other direction was captured at all.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lint/mad.h"
#include "uroce/address.h"
#include "uroce/time.h"

namespace uroce::lint {

class CmTracker {
 public:
  struct End {
    IpAddress ip;
    uint32_t id = 0;  // communication id
    uint32_t qpn = 0;
    Psn starting_psn{};
    uint8_t responder_resources = 0;
    uint8_t rnr_retries = 7;  // how often the other end may retry after RNR NAKs
  };
  struct Connection {
    End active;
    End passive;
    uint8_t service = 0;
    uint8_t path_mtu = 0;    // code
    uint64_t req_frame = 0;  // of its first REQ
  };
  enum class Step : uint8_t { kNothing, kConnected, kConfirmed, kEnding };
  struct Progress {
    Step step = Step::kNothing;
    const Connection* connection = nullptr;  // until the next message
  };
  /// Where and when a message was seen.
  struct Seen {
    IpAddress src;
    IpAddress dst;
    uint64_t frame = 0;
    uint32_t flow = 0;
    Instant time{};
  };
  /// A fault if the capture shows packets from `from` to `to`.
  struct Doubt {
    Issue issue;
    uint64_t frame = 0;
    uint32_t flow = 0;
    IpAddress from;
    IpAddress to;
  };

  /// Checks the message against what came before. Says what this message completes: both QPs are known, the side that
  /// accepts may send, the connection is being ended.
  Progress on_message(const Seen& seen, const CmMessage& message, std::vector<Issue>& issues);
  const std::vector<Doubt>& doubts() const { return doubts_; }

 private:
  enum Side : uint8_t { kActive, kPassive };
  /// What one side sent.
  struct Sent {
    uint16_t attributes = 0;            // a bit each
    uint32_t opening = 0;               // REQs or REPs
    uint32_t refused = 0;               // REJs
    std::array<uint64_t, 3> digests{};  // of REQ or REP, RTU, DREQ
    uint64_t dreq_transaction = 0;
    uint64_t lap_transaction = 0;

    bool has(CmAttribute attribute) const { return (attributes & bit(attribute)) != 0; }
    static uint16_t bit(CmAttribute attribute) {
      return static_cast<uint16_t>(1u << (static_cast<unsigned>(attribute) - static_cast<unsigned>(CmAttribute::kReq)));
    }
  };
  struct Exchange {
    Connection connection;
    uint64_t transaction_id = 0;
    std::array<Sent, 2> sent{};
    bool has_passive = false;
  };
  struct Resolution {  // SIDR
    uint64_t transaction_id = 0;
    uint64_t digest = 0;
  };
  struct Key {
    IpAddress ip;
    uint64_t number = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  /// One message of a known exchange.
  struct Message {
    const Seen& seen;
    const CmMessage& message;
    Exchange& exchange;
    Side side;
    const char* name;
    Sent& mine() const { return exchange.sent[side]; }
    Sent& theirs() const { return exchange.sent[1 - side]; }
  };

  Exchange* find(const Seen& seen, const CmMessage& message);
  void on_req(const Seen& seen, const CmMessage& message, std::vector<Issue>& issues);
  void on_sidr(const Seen& seen, const CmMessage& message, std::vector<Issue>& issues);
  void on_stranger(const Seen& seen, const CmMessage& message);
  bool ids_fit(const Message& step, std::vector<Issue>& issues) const;
  void check_transaction(const Message& step, std::vector<Issue>& issues) const;
  void check_place(const Message& step, std::vector<Issue>& issues);
  void check_repetition(const Message& step, std::vector<Issue>& issues);
  void doubt(const Message& step, const char* missing);
  Progress advance(const Message& step);

  std::vector<Exchange> exchanges_;
  std::unordered_map<Key, uint32_t, KeyHash> by_transaction_;  // by the address of the active side
  std::unordered_map<Key, uint32_t, KeyHash> by_id_;           // by the address that chose the id
  std::unordered_map<Key, Resolution, KeyHash> resolutions_;   // by the address that asked
  std::vector<Doubt> doubts_;
  std::optional<Instant> began_;
};

}  // namespace uroce::lint
