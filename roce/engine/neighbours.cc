#include "engine/neighbours.h"

#include <algorithm>
#include <utility>

namespace uroce {
namespace {

constexpr Duration kFirstRetry = milliseconds(10);  // well within what QPs with short timeouts wait altogether
constexpr Duration kLastRetry = milliseconds(1000);
constexpr Duration kVerifyInterval = milliseconds(1000);
constexpr Instant kNow = {std::numeric_limits<int64_t>::min()};

bool is_unicast(const IpAddress& ip) { return !ip.is_zero() && !ip.is_multicast() && ip != IpAddress::v4(0); }

}  // namespace

Neighbours::Neighbours(const MacAddress& mac, std::vector<LocalAddress> addresses, Counters& counters,
                       Resolved on_resolved)
    : mac_(mac),
      addresses_(std::move(addresses)),
      counters_(counters),
      on_resolved_(std::move(on_resolved)),
      announce_next_(static_cast<uint32_t>(addresses_.size())),
      replies_(kRepliesMax) {
  entries_.reserve(kTableMax);
  conflicts_.reserve(kConflictsMax);
}

// The table.

const Neighbours::Entry* Neighbours::find(const IpAddress& ip, uint16_t vlan_id) const {
  for (const Entry& e : entries_) {
    if (e.ip == ip && e.vlan_id == vlan_id) return &e;
  }
  return nullptr;
}

Neighbours::Entry* Neighbours::find(const IpAddress& ip, uint16_t vlan_id) {
  return const_cast<Entry*>(std::as_const(*this).find(ip, vlan_id));
}

/// A fresh entry; when the table is full, in the place of one that nobody here asked for, or whose owner never
/// answered.
Neighbours::Entry* Neighbours::insert(const IpAddress& ip, uint16_t vlan_id) {
  Entry* entry = nullptr;
  if (entries_.size() < kTableMax) {
    entry = &entries_.emplace_back();
  } else {
    const auto idle = [](const Entry& e) { return !e.fixed && e.next_request == Instant::never(); };
    auto old = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return !e.wanted && idle(e); });
    if (old == entries_.end()) old = std::find_if(entries_.begin(), entries_.end(), idle);
    if (old == entries_.end()) return nullptr;
    entry = &*old;
    *entry = Entry{};
  }
  entry->ip = ip;
  entry->vlan_id = vlan_id;
  return entry;
}

void Neighbours::set_mac(Entry& entry, const MacAddress& mac) {
  const bool news = !entry.known || entry.mac != mac;
  entry.known = true;
  entry.mac = mac;
  entry.attempts = 0;
  entry.next_request = Instant::never();
  // The callback may call want(), which may reuse `entry`: hand it copies, and touch nothing afterwards.
  if (news) on_resolved_(IpAddress(entry.ip), entry.vlan_id, MacAddress(mac));
}

/// `asked`: which address of ours the sender asked for; nullptr when it only announced itself.
void Neighbours::learn(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac, const LocalAddress* asked) {
  if (!is_unicast(ip)) return;
  Entry* entry = find(ip, vlan_id);
  if (entry == nullptr && asked != nullptr && asked->on_link(ip) && entries_.size() < kTableMax) {
    entry = insert(ip, vlan_id);
  }
  if (entry != nullptr && !entry->fixed) set_mac(*entry, mac);
}

bool Neighbours::set_static(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac) {
  if (!is_unicast(ip) || own(ip, vlan_id) != nullptr) return false;
  Entry* entry = find(ip, vlan_id);
  if (entry == nullptr) entry = insert(ip, vlan_id);
  if (entry == nullptr) return false;
  entry->wanted = entry->fixed = true;
  set_mac(*entry, mac);
  return true;
}

const LocalAddress* Neighbours::own(const IpAddress& ip, uint16_t vlan_id) const {
  for (const LocalAddress& a : addresses_) {
    if (a.ip == ip && a.vlan_id == vlan_id) return &a;
  }
  return nullptr;
}

std::optional<MacAddress> Neighbours::lookup(const IpAddress& ip, uint16_t vlan_id) const {
  if (ip.is_multicast() || ip == IpAddress::v4(0xFFFFFFFF)) return multicast_mac(ip);
  if (own(ip, vlan_id) != nullptr) return mac_;
  const Entry* entry = find(ip, vlan_id);
  if (entry == nullptr || !entry->known) return std::nullopt;
  return entry->mac;
}

void Neighbours::want(const IpAddress& ip, const LocalAddress& source, Instant now) {
  if (!is_unicast(ip) || own(ip, source.vlan_id) != nullptr || ip.is_v4() != source.ip.is_v4()) return;
  Entry* entry = find(ip, source.vlan_id);
  if (entry == nullptr) entry = insert(ip, source.vlan_id);
  if (entry == nullptr) {
    counters_.tx_neighbour_unresolved++;
    return;
  }
  if (entry->fixed) return;
  entry->wanted = true;
  entry->source = source;
  if (entry->known) {
    entry->attempts = kAttempts - 1;
    entry->next_request = std::max(now, entry->last_request + kVerifyInterval);
  } else {
    entry->attempts = 0;
    entry->next_request = now;
  }
  next_due_ = std::min(next_due_, entry->next_request);
}

// Input.

bool Neighbours::on_frame(std::span<const uint8_t> frame, Instant) {
  const auto link = decode_link(frame);
  if (!link || link->src_mac == mac_) return false;
  if (link->dst_mac != mac_ && !link->dst_mac.is_multicast()) return false;
  if (link->ethertype == kEtherArp) return on_arp(*link);
  return on_icmp(*link);
}

bool Neighbours::on_arp(const LinkFrame& link) {
  const auto arp = decode_arp(link);
  if (!arp || arp->sender_mac == mac_) return false;
  const LocalAddress* target = own(arp->target_ip, link.vlan_id);
  const bool conflict = own(arp->sender_ip, link.vlan_id) != nullptr;
  if (conflict) report_conflict(arp->sender_ip, arp->sender_mac);
  const bool known = find(arp->sender_ip, link.vlan_id) != nullptr;
  if (target == nullptr && !conflict && !known) return false;
  counters_.arp_rx++;
  if (!conflict) learn(arp->sender_ip, link.vlan_id, arp->sender_mac, target);
  if (target != nullptr && arp->operation == Arp::kRequest && !replies_.full()) {
    const Arp reply{Arp::kReply, mac_, target->ip, arp->sender_mac, arp->sender_ip};
    queue_reply(encode_arp(replies_.next_slot().data, {arp->sender_mac, mac_, link.vlan_id}, reply));
    counters_.arp_tx++;
  }
  return true;
}

bool Neighbours::on_icmp(const LinkFrame& link) {
  const auto icmp = decode_icmp(link);
  if (!icmp) return false;
  if (icmp->is_echo_request()) {
    // Not for multicast: a flood of answers to one request would be ours to answer for.
    if (own(icmp->dst_ip, link.vlan_id) == nullptr || !is_unicast(icmp->src_ip) || link.dst_mac != mac_) return false;
    uint32_t bytes = 0;
    if (!replies_.full()) {
      bytes = encode_echo_reply(replies_.next_slot().data, {link.src_mac, mac_, link.vlan_id}, *icmp);
    }
    (bytes != 0 ? counters_.echo_replies : counters_.rx_drop_ping)++;
    queue_reply(bytes);
    return true;
  }
  const auto message = decode_neighbour_message(*icmp);
  if (!message) return false;
  const LocalAddress* target = own(message->target, link.vlan_id);
  if (target == nullptr && find(message->target, link.vlan_id) == nullptr) return false;
  if (target == nullptr && !message->advertisement) return false;
  counters_.nd_rx++;
  if (message->advertisement) {
    on_advertisement(link, *message);
  } else {
    on_solicitation(link, *message, *target);
  }
  return true;
}

void Neighbours::on_solicitation(const LinkFrame& link, const NeighbourMessage& message, const LocalAddress& target) {
  const bool probe = message.src_ip.is_zero();  // somebody checks whether the address is free
  if (!probe && own(message.src_ip, link.vlan_id) != nullptr) {
    report_conflict(message.src_ip, message.link_layer.value_or(link.src_mac));
    return;
  }
  if (!probe && message.link_layer) learn(message.src_ip, link.vlan_id, *message.link_layer, &target);
  if (replies_.full()) return;
  NeighbourMessage reply;
  reply.advertisement = true;
  reply.solicited = !probe;
  reply.override_cache = true;
  reply.src_ip = target.ip;
  reply.dst_ip = probe ? all_nodes_multicast() : message.src_ip;
  reply.target = target.ip;
  reply.link_layer = mac_;
  const MacAddress to = probe ? multicast_mac(reply.dst_ip) : message.link_layer.value_or(link.src_mac);
  queue_reply(encode_neighbour_message(replies_.next_slot().data, {to, mac_, link.vlan_id}, reply));
  counters_.nd_tx++;
}

void Neighbours::on_advertisement(const LinkFrame& link, const NeighbourMessage& message) {
  if (own(message.target, link.vlan_id) != nullptr) {
    const MacAddress claimant = message.link_layer.value_or(link.src_mac);
    if (claimant != mac_) report_conflict(message.target, claimant);
    return;
  }
  if (!message.link_layer) return;
  Entry* entry = find(message.target, link.vlan_id);
  if (entry == nullptr) return;
  const bool replaces = entry->known && entry->mac != *message.link_layer;
  if (replaces && !message.override_cache) return;  // a proxy's or an anycast answer: what we have is better
  if (!entry->fixed) set_mac(*entry, *message.link_layer);
}

void Neighbours::report_conflict(const IpAddress& ip, const MacAddress& mac) {
  counters_.address_conflicts++;
  const std::pair<IpAddress, MacAddress> conflict{ip, mac};
  const bool seen = std::find(conflicts_.begin(), conflicts_.end(), conflict) != conflicts_.end();
  if (!seen && conflicts_.size() < kConflictsMax) conflicts_.push_back(conflict);
}

std::optional<std::pair<IpAddress, MacAddress>> Neighbours::take_conflict() {
  if (conflicts_taken_ == conflicts_.size()) return std::nullopt;
  return conflicts_[conflicts_taken_++];
}

// Output.

/// Publishes what was just written into the next slot.
void Neighbours::queue_reply(uint32_t bytes) {
  if (bytes == 0) return;
  replies_.next_slot().bytes = bytes;
  replies_.push();
}

void Neighbours::announce(Instant) { announce_next_ = 0; }

uint32_t Neighbours::write_announcement(std::span<uint8_t> out, const LocalAddress& address) {
  if (address.ip.is_v4()) {
    counters_.arp_tx++;
    const Arp arp{Arp::kRequest, mac_, address.ip, MacAddress{}, address.ip};
    return encode_arp(out, {kBroadcastMac, mac_, address.vlan_id}, arp);
  }
  counters_.nd_tx++;
  NeighbourMessage m;
  m.advertisement = true;
  m.override_cache = true;
  m.src_ip = m.target = address.ip;
  m.dst_ip = all_nodes_multicast();
  m.link_layer = mac_;
  return encode_neighbour_message(out, {multicast_mac(m.dst_ip), mac_, address.vlan_id}, m);
}

uint32_t Neighbours::write_request(std::span<uint8_t> out, const Entry& entry) {
  if (entry.ip.is_v4()) {
    counters_.arp_tx++;
    const Arp arp{Arp::kRequest, mac_, entry.source.ip, MacAddress{}, entry.ip};
    return encode_arp(out, {kBroadcastMac, mac_, entry.vlan_id}, arp);
  }
  counters_.nd_tx++;
  NeighbourMessage m;
  m.src_ip = entry.source.ip;
  m.dst_ip = solicited_node_multicast(entry.ip);
  m.target = entry.ip;
  m.link_layer = mac_;
  return encode_neighbour_message(out, {multicast_mac(m.dst_ip), mac_, entry.vlan_id}, m);
}

void Neighbours::schedule_next(Entry& entry, Instant now) {
  entry.attempts++;
  entry.last_request = now;
  if (entry.attempts >= kAttempts) {
    entry.next_request = Instant::never();
    return;
  }
  const unsigned doublings = std::min(entry.attempts - 1, 10u);
  entry.next_request = now + std::min(kFirstRetry * (int64_t{1} << doublings), kLastRetry);
}

void Neighbours::update_next_due() {
  next_due_ = Instant::never();
  for (const Entry& e : entries_) next_due_ = std::min(next_due_, e.next_request);
}

bool Neighbours::poll_transmit(TxFrame& frame, Instant now) {
  const std::span<uint8_t> out{frame.data, frame.capacity};
  frame.bytes = 0;
  while (frame.bytes == 0 && !replies_.empty()) {
    const Pending& reply = replies_.front();
    if (reply.bytes <= frame.capacity) {
      std::copy_n(reply.data, reply.bytes, frame.data);
      frame.bytes = reply.bytes;
    }
    replies_.pop();
  }
  while (frame.bytes == 0 && announce_next_ < addresses_.size()) {
    frame.bytes = write_announcement(out, addresses_[announce_next_++]);
  }
  if (frame.bytes != 0 || now < next_due_) return frame.bytes != 0;
  for (Entry& entry : entries_) {
    if (now < entry.next_request) continue;
    frame.bytes = write_request(out, entry);
    schedule_next(entry, now);
    break;
  }
  update_next_due();
  return frame.bytes != 0;
}

Instant Neighbours::next_timeout() const {
  if (!replies_.empty() || announce_next_ < addresses_.size()) return kNow;
  return next_due_;
}

}  // namespace uroce
