// What an operator should hear of neighbours: addresses that move, and addresses that two hosts claim.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "uroce/address.h"
#include "uroce/time.h"

namespace uroce {

struct NeighbourNews {
  enum class Kind : uint8_t {
    kMoved,     // `holder` no longer answered for `ip`, and `claimant` did
    kDisputed,  // `claimant` says that it has `ip`; `holder` answers for it, and keeps it
    kOurs,      // `claimant` says that it has `ip`, which is ours; `holder` is our own MAC
  };
  Kind kind = Kind::kMoved;
  IpAddress ip;
  uint16_t vlan_id = 0;
  MacAddress holder;
  MacAddress claimant;
  bool operator==(const NeighbourNews&) const = default;
};

/// One line for a log.
std::string to_string(const NeighbourNews& news);

/// Keeps a forger from filling the log: the same dispute is logged once as long as it is among the last 16, and of all
/// news 16 lines at once and then one a minute.
class NewsLimiter {
 public:
  static constexpr uint32_t kBurst = 16;
  static constexpr Duration kInterval = milliseconds(60000);

  bool allows(const NeighbourNews& news, Instant now);

 private:
  std::array<NeighbourNews, kBurst> told_;
  uint32_t told_count_ = 0;
  uint32_t left_ = kBurst;
  Instant refilled_{0};
};

/// Passes on the news that the limiter allows.
class NewsDesk {
 public:
  using Listener = std::function<void(const NeighbourNews& news)>;
  explicit NewsDesk(Listener listener) : listener_(std::move(listener)) {}

  void tell(const NeighbourNews& news, Instant now) {
    if (limiter_.allows(news, now)) listener_(news);
  }

 private:
  NewsLimiter limiter_;
  Listener listener_;
};

}  // namespace uroce
