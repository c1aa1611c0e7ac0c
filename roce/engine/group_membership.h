// Tells routers and switches which multicast groups this host wants (IGMP, MLD): a report when the first user joins,
// another when the last one leaves, and an answer to each query. Answers have the old format for a while after a query
// in the old format.
//
// Sans-I/O, like Neighbours.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "engine/port_filters.h"
#include "packet/group_frames.h"
#include "transport/counters.h"
#include "uroce/address.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce {

class GroupMembership {
 public:
  static constexpr uint32_t kGroupsMax = 256;
  /// How often a change is reported, since reports are not acknowledged, and within which time.
  static constexpr uint32_t kRobustness = 2;
  /// A querier that wants answers sooner gets them within this time: otherwise it might ask for all of them at once.
  static constexpr Duration kLeastPatience = milliseconds(100);
  static constexpr Duration kUnsolicited = milliseconds(1000);
  /// How long after an old query answers are old, too: twice the interval between queries, and the time for an answer.
  static constexpr Duration kOldQuerier = milliseconds(260'000);

  /// `filter`: nullptr if the port passes on everything; else it outlives this, as `random` does.
  GroupMembership(const MacAddress& mac, RandomSource& random, Counters& counters, MulticastFilter* filter)
      : mac_(mac), random_(random), counters_(counters), filter_(filter) {}

  /// Adds a user of `group`, which is reported from `source`. False when there are too many groups.
  bool join(const IpAddress& group, const LocalAddress& source, Instant now);
  /// Removes a user. False when the group has none.
  bool leave(const IpAddress& group, uint16_t vlan_id, Instant now);

  /// Takes a frame that is not RoCE. True when it was a query.
  bool on_frame(std::span<const uint8_t> frame, Instant now);
  bool poll_transmit(TxFrame& frame, Instant now);
  Instant next_timeout() const { return next_; }

 private:
  struct Entry {
    IpAddress group;
    LocalAddress source;
    uint32_t users = 0;
    uint32_t news_left = 0;                // reports of the last change that are still to be sent
    Instant news_at = Instant::never();    // when the next of them is due
    Instant answer_at = Instant::never();  // when a query is to be answered
    Instant due() const { return news_at < answer_at ? news_at : answer_at; }
  };
  Entry* find(const IpAddress& group, uint16_t vlan_id);
  void tell(Entry& entry, Instant now);
  void filter(const IpAddress& group, bool wanted);
  void rearm();
  Duration within(Duration longest) { return {static_cast<int64_t>(random_.next_u64() % (longest.ns + 1))}; }
  bool old_asks(const Entry& entry, Instant now) const { return now < old_until_[entry.group.is_v4() ? 0 : 1]; }

  const MacAddress mac_;
  RandomSource& random_;
  Counters& counters_;
  MulticastFilter* const filter_;
  std::vector<Entry> entries_;
  std::array<Instant, 2> old_until_{};  // of IPv4 and IPv6
  Instant next_ = Instant::never();
};

}  // namespace uroce
