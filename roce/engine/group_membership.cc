#include "engine/group_membership.h"

#include <algorithm>
#include <new>

namespace uroce {
namespace {

/// Every host is in this group, and none reports it.
bool is_all_nodes(const IpAddress& group) {
  return group.is_v4() ? group == IpAddress::v4(0xE0000001) : group == all_nodes_multicast();
}

}  // namespace

GroupMembership::Entry* GroupMembership::find(const IpAddress& group, uint16_t vlan_id) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.group == group && entry.source.vlan_id == vlan_id;
  });
  return found == entries_.end() ? nullptr : &*found;
}

bool GroupMembership::join(const IpAddress& group, const LocalAddress& source, Instant now) {
  Entry* entry = find(group, source.vlan_id);
  const bool fresh = entry == nullptr;
  if (fresh) {
    if (entries_.size() >= kGroupsMax) return false;
    entries_.push_back({group, source});
    entry = &entries_.back();
  }
  if (entry->users++ != 0) return true;
  try {
    filter(group, true);
  } catch (const std::bad_alloc&) {
    entry->users = 0;
    if (fresh) entries_.pop_back();
    throw;
  }
  entry->source = source;
  tell(*entry, now);
  return true;
}

bool GroupMembership::leave(const IpAddress& group, uint16_t vlan_id, Instant now) {
  Entry* const entry = find(group, vlan_id);
  if (entry == nullptr || entry->users == 0) return false;
  if (--entry->users != 0) return true;
  filter(group, false);
  entry->answer_at = Instant::never();
  tell(*entry, now);
  return true;
}

void GroupMembership::tell(Entry& entry, Instant now) {
  entry.news_left = is_all_nodes(entry.group) ? 0 : kRobustness;
  entry.news_at = now;
  rearm();
}

/// Groups with the same MAC share it.
void GroupMembership::filter(const IpAddress& group, bool wanted) {
  if (filter_ == nullptr) return;
  const MacAddress mac = multicast_mac(group);
  const auto users = std::count_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.users != 0 && multicast_mac(entry.group) == mac;
  });
  if (users == (wanted ? 1 : 0)) filter_->want(mac, wanted);
}

void GroupMembership::rearm() {
  next_ = Instant::never();
  for (const Entry& entry : entries_) next_ = std::min(next_, entry.due());
}

bool GroupMembership::on_frame(std::span<const uint8_t> frame, Instant now) {
  const auto link = decode_link(frame);
  const auto query = link ? decode_group_query(*link) : std::nullopt;
  if (!query) return false;
  counters_.group_queries++;
  if (query->old) old_until_[query->ipv6 ? 1 : 0] = now + kOldQuerier;
  for (Entry& entry : entries_) {
    if (entry.users == 0 || entry.group.is_v4() == query->ipv6 || entry.source.vlan_id != link->vlan_id) continue;
    if (is_all_nodes(entry.group) || (!query->group.is_zero() && query->group != entry.group)) continue;
    entry.answer_at = std::min(entry.answer_at, now + within(std::max(query->patience, kLeastPatience)));
  }
  rearm();
  return true;
}

bool GroupMembership::poll_transmit(TxFrame& frame, Instant now) {
  frame.bytes = 0;
  while (next_ <= now && frame.bytes == 0) {
    const auto due = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.due() <= now; });
    const bool old = old_asks(*due, now);
    GroupReport report{GroupNews::kWanted, due->group, due->source.ip, old};
    if (!due->group.is_v4()) report.source = link_local_of(mac_);
    bool say = true;
    if (due->news_at <= now) {
      report.news = due->users != 0 ? GroupNews::kJoined : GroupNews::kNotWanted;
      say = due->news_left != 0;
      if (say) due->news_left--;
      // An old querier is told once that a host leaves, and then queries the group.
      if (old && due->users == 0) due->news_left = 0;
      due->news_at = due->news_left != 0 ? now + within(kUnsolicited) : Instant::never();
    } else {
      due->answer_at = Instant::never();
    }
    if (say) frame.bytes = encode_group_report({frame.data, frame.capacity}, mac_, due->source.vlan_id, report);
    if (due->users == 0 && due->news_at == Instant::never()) entries_.erase(due);
    rearm();
  }
  if (frame.bytes != 0) counters_.group_reports++;
  return frame.bytes != 0;
}

}  // namespace uroce
