// Our neighbours on the network: the requests and replies of ARP (IPv4) and neighbour discovery (IPv6). Also answers
// ping, so that an operator can see an endpoint.
//
// Sans-I/O: frames and time in, frames and resolutions out. What is known of other hosts is in `NeighbourTable`; this
// class answers for our own addresses, announces and defends them.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/ring.h"
#include "engine/neighbour_frames.h"
#include "engine/neighbour_news.h"
#include "engine/neighbour_table.h"
#include "packet/host_frames.h"
#include "transport/counters.h"
#include "uroce/address.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce {

class Neighbours {
 public:
  /// `addresses`: all of ours, the link-local one included. `on_resolved` is called inside `on_frame` and `set_static`,
  /// for every address that becomes known or changes its MAC; so is `on_news`, with news for an operator, as often as
  /// NewsLimiter allows.
  Neighbours(const MacAddress& mac, std::vector<LocalAddress> addresses, Counters& counters,
             NeighbourTable::Resolved on_resolved, NewsDesk::Listener on_news);
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  /// Our addresses have changed.
  void set_addresses(std::vector<LocalAddress> addresses);

  /// The MAC of `ip` if it is known. Multicast addresses map by rule.
  std::optional<MacAddress> lookup(const IpAddress& ip, uint16_t vlan_id) const;
  /// Wants `ip` resolved from `source`: asks now and again (after 10 ms, 20 ms, ... at most every second) until it is
  /// known or `NeighbourTable::kAttempts` requests went unanswered. Wanting again starts afresh; wanting a known
  /// address verifies it (at most once a second), and keeps the MAC meanwhile: call it for a new connection, and when a
  /// peer falls silent.
  void want(const IpAddress& ip, const LocalAddress& source, Instant now);
  /// This frame of ours cannot leave, because the MAC of its destination is not known. If nobody asks for it any more,
  /// it is wanted again, a second after the last question at the earliest: the host may be there by now.
  void on_unresolved(const uint8_t* frame, Instant now);

  /// `ip` has this MAC for good: it is never asked for and no frame changes it. False when the table is full.
  bool set_static(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac);

  /// Announces our addresses (gratuitous ARP, unsolicited NA), once.
  void announce();

  /// A frame that is not RoCE. True when it was ARP, ND or ping for us, and was handled.
  bool on_frame(std::span<const uint8_t> frame, Instant now);

  /// Fills `frame` with the next frame to send. False when there is none now. A reply that does not fit the buffer is
  /// dropped.
  bool poll_transmit(TxFrame& frame, Instant now);
  /// When poll_transmit() has something next: in the past if it has something now. Changed by every other function.
  Instant next_timeout() const {
    return !replies_.empty() || announce_next_ < addresses_.size() ? kNow : table_.next_question();
  }

 private:
  static constexpr uint32_t kRepliesMax = 32;  // more at once are dropped: the peer asks again
  static constexpr uint32_t kReplyBytesMax = 2048;

  static constexpr Instant kNow = {std::numeric_limits<int64_t>::min()};

  struct Pending {  // a complete frame waiting to be sent
    uint32_t bytes = 0;
    uint8_t data[kReplyBytesMax];
  };

  const LocalAddress* own(const IpAddress& ip, uint16_t vlan_id) const;
  bool on_arp(const LinkFrame& link, Instant now);
  bool on_icmp(const LinkFrame& link, Instant now);
  void on_solicitation(const LinkFrame& link, const NeighbourMessage& message, const LocalAddress& target, Instant now);
  void on_advertisement(const LinkFrame& link, const NeighbourMessage& message, Instant now);
  bool on_echo_request(const LinkFrame& link, const Icmp& request);
  void on_conflict(const LocalAddress& ours, const MacAddress& claimant, Instant now);
  /// Where the next reply is written; it must be asked for only while there is room.
  std::span<uint8_t> reply_slot() { return replies_.next_slot().data; }
  void queue_reply(uint32_t bytes);

  const MacAddress mac_;
  std::vector<LocalAddress> addresses_;
  Counters& counters_;
  NewsDesk news_;
  NeighbourTable table_;
  NeighbourFrames frames_;
  uint32_t announce_next_;  // index into addresses_; its size when nothing is left to announce
  Ring<Pending> replies_;
  std::vector<Instant> defend_at_;  // when each of addresses_ may be defended again
};

}  // namespace uroce
