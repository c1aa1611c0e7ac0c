// Who has which MAC address: ARP for IPv4, neighbour discovery for IPv6, asked and answered. Also answers ping, so that
// a person can see an endpoint.
//
// Sans-I/O: frames and time in, frames and resolutions out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/ring.h"
#include "base/time.h"
#include "engine/port.h"
#include "transport/counters.h"

namespace uroce {

class Neighbours {
 public:
  static constexpr uint32_t kTableMax = 1024;

  using Resolved = std::function<void(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac)>;

  /// `addresses`: all of ours, the link-local one included. `on_resolved` is called inside `on_frame`, for every
  /// address that becomes known or changes its MAC.
  Neighbours(const MacAddress& mac, std::vector<LocalAddress> addresses, Counters& counters, Resolved on_resolved);

  /// The MAC of `ip` if it is known. Multicast addresses map by rule.
  std::optional<MacAddress> lookup(const IpAddress& ip, uint16_t vlan_id) const;
  /// Wants `ip` resolved from `source`: asks now and again (after 100 ms, 200 ms, ... at most every second) until it is
  /// known or `kAttempts` requests went unanswered. Wanting again starts afresh.
  void want(const IpAddress& ip, const LocalAddress& source, Instant now);
  static constexpr unsigned kAttempts = 10;

  /// Announces our addresses (gratuitous ARP, unsolicited NA), once, at start.
  void announce(Instant now);

  /// A frame that is not RoCE. True when it was ARP, ND or ping for us, and was handled.
  bool on_frame(std::span<const uint8_t> frame, Instant now);

  /// Fills `frame` with the next frame to send. False when there is none now.
  bool poll_transmit(TxFrame& frame, Instant now);
  Instant next_timeout() const;

  /// Somebody else claims one of our addresses: which, and who. Reported once each.
  std::optional<std::pair<IpAddress, MacAddress>> take_conflict();

 private:
  struct Entry {
    IpAddress ip;
    uint16_t vlan_id = 0;
    bool known = false;
    MacAddress mac;
    LocalAddress source;
    unsigned attempts = 0;
    Instant next_request = Instant::never();
  };
  struct Reply;

  Entry* find(const IpAddress& ip, uint16_t vlan_id);
  const Entry* find(const IpAddress& ip, uint16_t vlan_id) const;
  Entry* insert(const IpAddress& ip, uint16_t vlan_id);
  void learn(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac);
  const LocalAddress* own(const IpAddress& ip, uint16_t vlan_id) const;

  struct Pending {  // a complete frame waiting to be sent
    uint16_t bytes = 0;
    uint8_t data[2048];
  };

  MacAddress mac_;
  std::vector<LocalAddress> addresses_;
  Counters& counters_;
  Resolved on_resolved_;
  std::vector<Entry> entries_;
  Ring<Pending> replies_;
  std::vector<std::pair<IpAddress, MacAddress>> conflicts_;
};

}  // namespace uroce
