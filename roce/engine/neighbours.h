// Who has which MAC address: ARP for IPv4, neighbour discovery for IPv6, asked and answered. Also answers ping, so that
// a person can see an endpoint.
//
// Sans-I/O: frames and time in, frames and resolutions out. The table has a fixed size. An address enters it because we
// want it, or because its owner asked for one of ours; unasked announcements only update what is there, so that a flood
// of them cannot push out what is in use.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/ring.h"
#include "base/time.h"
#include "engine/port.h"
#include "transport/counters.h"
#include "wire/host_frames.h"

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
  /// Wants `ip` resolved from `source`: asks now and again (after 10 ms, 20 ms, ... at most every second) until it is
  /// known or `kAttempts` requests went unanswered. Wanting again starts afresh; wanting a known address verifies it
  /// with one more request (at most one a second), and keeps the MAC meanwhile.
  void want(const IpAddress& ip, const LocalAddress& source, Instant now);
  static constexpr unsigned kAttempts = 13;

  /// `ip` has this MAC for good: it is never asked for and no frame changes it. False when the table is full.
  bool set_static(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac);

  /// Announces our addresses (gratuitous ARP, unsolicited NA), once, at start.
  void announce(Instant now);

  /// A frame that is not RoCE. True when it was ARP, ND or ping for us, and was handled.
  bool on_frame(std::span<const uint8_t> frame, Instant now);

  /// Fills `frame` with the next frame to send. False when there is none now. A reply that does not fit the buffer is
  /// dropped.
  bool poll_transmit(TxFrame& frame, Instant now);
  /// When poll_transmit() has something next: in the past if it has something now. Changed by every other function.
  Instant next_timeout() const;

  /// Somebody else claims one of our addresses: which, and who. Each pair is reported once; the first 16 pairs only.
  std::optional<std::pair<IpAddress, MacAddress>> take_conflict();

 private:
  static constexpr uint32_t kRepliesMax = 32;  // more at once are dropped: the peer asks again
  static constexpr uint32_t kReplyBytesMax = 2048;
  static constexpr uint32_t kConflictsMax = 16;

  struct Entry {
    IpAddress ip;
    uint16_t vlan_id = 0;
    bool known = false;
    bool wanted = false;  // by us, not only heard of
    bool fixed = false;   // by set_static
    MacAddress mac;
    LocalAddress source;
    unsigned attempts = 0;
    Instant next_request = Instant::never();
    Instant last_request = {std::numeric_limits<int64_t>::min() / 2};
  };
  struct Pending {  // a complete frame waiting to be sent
    uint32_t bytes = 0;
    uint8_t data[kReplyBytesMax];
  };

  Entry* find(const IpAddress& ip, uint16_t vlan_id);
  const Entry* find(const IpAddress& ip, uint16_t vlan_id) const;
  Entry* insert(const IpAddress& ip, uint16_t vlan_id);
  void set_mac(Entry& entry, const MacAddress& mac);
  void learn(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac, const LocalAddress* asked);
  const LocalAddress* own(const IpAddress& ip, uint16_t vlan_id) const;
  void report_conflict(const IpAddress& ip, const MacAddress& mac);

  bool on_arp(const LinkFrame& link);
  bool on_icmp(const LinkFrame& link);
  void on_solicitation(const LinkFrame& link, const NeighbourMessage& message, const LocalAddress& target);
  void on_advertisement(const LinkFrame& link, const NeighbourMessage& message);
  void queue_reply(uint32_t bytes);

  uint32_t write_announcement(std::span<uint8_t> out, const LocalAddress& address);
  uint32_t write_request(std::span<uint8_t> out, const Entry& entry);
  void schedule_next(Entry& entry, Instant now);
  void update_next_due();

  MacAddress mac_;
  std::vector<LocalAddress> addresses_;
  Counters& counters_;
  Resolved on_resolved_;
  std::vector<Entry> entries_;  // capacity kTableMax, never reallocated
  Instant next_due_ = Instant::never();
  uint32_t announce_next_;  // index into addresses_; its size when nothing is left to announce
  Ring<Pending> replies_;
  std::vector<std::pair<IpAddress, MacAddress>> conflicts_;
  uint32_t conflicts_taken_ = 0;
};

}  // namespace uroce
