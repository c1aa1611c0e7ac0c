// Who has which MAC address: ARP for IPv4, neighbour discovery for IPv6, asked and answered. Also answers ping, so that
// a person can see an endpoint.
//
// Sans-I/O: frames and time in, frames and resolutions out. The table has a fixed size. An address enters it because we
// want it, or because its owner asked for one of ours.
//
// Neither protocol proves who speaks, so what is in use changes only when its holder is gone. Whatever another host
// claims, the holder is asked first, at its own MAC; while it answers it keeps the address. When it is silent for
// 310 ms, everybody is asked, and the first who answers has the address from then on. A MAC that was only heard of, in
// a question to us, is used meanwhile; it is asked for when we want it, and gives way to whoever answers. Announcements
// that nobody asked for change nothing: they only make us ask.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/ring.h"
#include "engine/neighbour_news.h"
#include "transport/counters.h"
#include "uroce/address.h"
#include "uroce/port.h"
#include "uroce/time.h"
#include "wire/host_frames.h"

namespace uroce {

class Neighbours {
 public:
  static constexpr uint32_t kTableMax = 1024;

  using News = std::function<void(const NeighbourNews& news)>;
  using Resolved = std::function<void(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac)>;

  /// `addresses`: all of ours, the link-local one included. `on_resolved` is called inside `on_frame`, for every
  /// address that becomes known or changes its MAC; so is `on_news`, for what a person should hear of, as often as
  /// NewsLimiter allows.
  Neighbours(const MacAddress& mac, std::vector<LocalAddress> addresses, Counters& counters, Resolved on_resolved,
             News on_news);

  /// Ours have changed.
  void set_addresses(std::vector<LocalAddress> addresses) {
    addresses_ = std::move(addresses);
    announce_next_ = static_cast<uint32_t>(addresses_.size());
    defend_at_.assign(addresses_.size(), Instant{});
  }

  /// The MAC of `ip` if it is known. Multicast addresses map by rule.
  std::optional<MacAddress> lookup(const IpAddress& ip, uint16_t vlan_id) const;
  /// Wants `ip` resolved from `source`: asks now and again (after 10 ms, 20 ms, ... at most every second) until it is
  /// known or `kAttempts` requests went unanswered. Wanting again starts afresh; wanting a known address verifies it
  /// (at most once a second), and keeps the MAC meanwhile: call it for a new connection, and when a peer falls silent.
  void want(const IpAddress& ip, const LocalAddress& source, Instant now);
  static constexpr unsigned kAttempts = 13;       // for an address that is not known
  static constexpr unsigned kHolderAttempts = 5;  // to a holder, before everybody is asked
  static constexpr unsigned kVerifyAttempts = 3;  // to everybody, for an address that is known

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

 private:
  static constexpr uint32_t kRepliesMax = 32;  // more at once are dropped: the peer asks again
  static constexpr uint32_t kReplyBytesMax = 2048;

  /// What a frame says of its sender's address, and why we believe that much of it.
  enum class Heard : uint8_t {
    kAnswer,        // sent to us alone, as an answer is
    kQuestion,      // asks for an address of ours
    kAnnouncement,  // to whom it may concern
  };
  struct Entry {
    IpAddress ip;
    uint16_t vlan_id = 0;
    bool known = false;
    bool answered = false;  // the MAC is that of an answer; otherwise hearsay
    bool wanted = false;    // by us, not only heard of
    bool fixed = false;     // by set_static
    MacAddress mac;
    MacAddress claimant;  // another host that says it has the address; zero: none since the holder spoke
    LocalAddress source;
    unsigned questions = 0;  // of the round that is under way, or was the last
    Instant next_question = Instant::never();
    Instant last_question = {std::numeric_limits<int64_t>::min() / 2};

    unsigned questions_max() const;
    bool asks_holder() const { return known && answered && questions < kHolderAttempts; }
  };
  struct Pending {  // a complete frame waiting to be sent
    uint32_t bytes = 0;
    uint8_t data[kReplyBytesMax];
  };

  Entry* find(const IpAddress& ip, uint16_t vlan_id);
  const Entry* find(const IpAddress& ip, uint16_t vlan_id) const;
  Entry* insert(const IpAddress& ip, uint16_t vlan_id);
  void set_mac(Entry& entry, const MacAddress& mac);
  void hear(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac, Heard how, const LocalAddress* asked,
            Instant now);
  void on_holder(Entry& entry, Heard how, Instant now);
  void on_claim(Entry& entry, const MacAddress& mac, Heard how, Instant now);
  void on_first(Entry& entry, const MacAddress& mac, Heard how, Instant now);
  static bool everybody_was_asked(const Entry& entry, Instant now);
  const LocalAddress* own(const IpAddress& ip, uint16_t vlan_id) const;
  void on_conflict(const LocalAddress& ours, const MacAddress& claimant, Instant now);
  void tell(NeighbourNews::Kind kind, const Entry& entry, const MacAddress& claimant, Instant now);

  bool on_arp(const LinkFrame& link, Instant now);
  bool on_icmp(const LinkFrame& link, Instant now);
  void on_solicitation(const LinkFrame& link, const NeighbourMessage& message, const LocalAddress& target, Instant now);
  void on_advertisement(const LinkFrame& link, const NeighbourMessage& message, Instant now);
  void queue_reply(uint32_t bytes);

  uint32_t write_announcement(std::span<uint8_t> out, const LocalAddress& address);
  uint32_t write_request(std::span<uint8_t> out, const Entry& entry);
  void verify(Entry& entry, Instant now, Duration interval);
  void ask_soon(Entry& entry, Instant now);
  void schedule_next(Entry& entry, Instant now);
  void update_next_due();

  MacAddress mac_;
  std::vector<LocalAddress> addresses_;
  Counters& counters_;
  Resolved on_resolved_;
  News on_news_;
  NewsLimiter limiter_;
  std::vector<Entry> entries_;  // capacity kTableMax, never reallocated
  Instant next_due_ = Instant::never();
  uint32_t announce_next_;  // index into addresses_; its size when nothing is left to announce
  Ring<Pending> replies_;
  std::vector<Instant> defend_at_;  // when each of addresses_ may be defended again
};

}  // namespace uroce
