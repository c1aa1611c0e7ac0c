#include "engine/neighbours.h"

#include <algorithm>
#include <utility>

namespace uroce {
namespace {

constexpr Duration kFirstRetry = milliseconds(10);  // well within what QPs with short timeouts wait altogether
constexpr Duration kLastRetry = milliseconds(1000);
constexpr Duration kVerifyInterval = milliseconds(1000);   // between two rounds of questions, when we want one
constexpr Duration kClaimInterval = milliseconds(100);     // when another host's claim wants one
constexpr Duration kAnswerTime = milliseconds(1000);       // what comes later is not an answer
constexpr Duration kDefendInterval = milliseconds(10000);  // of RFC 5227
constexpr Instant kNow = {std::numeric_limits<int64_t>::min()};

bool is_unicast(const IpAddress& ip) { return !ip.is_zero() && !ip.is_multicast() && ip != IpAddress::v4(0); }

}  // namespace

Neighbours::Neighbours(const MacAddress& mac, std::vector<LocalAddress> addresses, Counters& counters,
                       Resolved on_resolved, News on_news)
    : mac_(mac),
      addresses_(std::move(addresses)),
      counters_(counters),
      on_resolved_(std::move(on_resolved)),
      on_news_(std::move(on_news)),
      announce_next_(static_cast<uint32_t>(addresses_.size())),
      replies_(kRepliesMax),
      defend_at_(addresses_.size()) {
  entries_.reserve(kTableMax);
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
    const auto idle = [](const Entry& e) { return !e.fixed && e.next_question == Instant::never(); };
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
  // The callback may call want(), which may reuse `entry`: hand it copies, and touch nothing afterwards.
  if (news) on_resolved_(IpAddress(entry.ip), entry.vlan_id, MacAddress(mac));
}

unsigned Neighbours::Entry::questions_max() const {
  if (!known) return kAttempts;
  return answered ? kHolderAttempts + kVerifyAttempts : kVerifyAttempts;
}

/// The latest question went to everybody, and is not too long ago.
bool Neighbours::everybody_was_asked(const Entry& entry, Instant now) {
  const unsigned to_holder = entry.known && entry.answered ? kHolderAttempts : 0;
  return entry.questions > to_holder && now - entry.last_question <= kAnswerTime;
}

/// Somebody says that `ip` has `mac`. `asked`: which address of ours a question was for.
void Neighbours::hear(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac, Heard how,
                      const LocalAddress* asked, Instant now) {
  if (!is_unicast(ip) || mac == mac_) return;
  Entry* entry = find(ip, vlan_id);
  if (entry == nullptr) {
    if (how != Heard::kQuestion || !asked->on_link(ip) || entries_.size() == kTableMax) return;
    entry = insert(ip, vlan_id);
    entry->source = *asked;
  }
  if (!entry->known) {
    on_first(*entry, mac, how, now);
  } else if (entry->mac == mac) {
    on_holder(*entry, how, now);
  } else {
    on_claim(*entry, mac, how, now);
  }
}

/// Nobody has the address yet. A question tells who asks, which is enough to answer with; whether it is true is still
/// asked if we want to know.
void Neighbours::on_first(Entry& entry, const MacAddress& mac, Heard how, Instant now) {
  if (how == Heard::kAnnouncement || (how == Heard::kAnswer && !entry.wanted)) {
    if (entry.wanted) ask_soon(entry, now);
    return;
  }
  if (how == Heard::kAnswer) {
    entry.answered = true;
    entry.questions = 0;
    entry.next_question = Instant::never();
  }
  set_mac(entry, mac);
}

/// The holder lives: it keeps its address, and who else claimed it is named.
void Neighbours::on_holder(Entry& entry, Heard how, Instant now) {
  if (how == Heard::kAnswer && entry.wanted) entry.answered = true;
  if (!entry.answered) return;
  entry.questions = 0;
  entry.next_question = Instant::never();
  if (entry.claimant.is_zero()) return;
  tell(NeighbourNews::Kind::kDisputed, entry, entry.claimant, now);
  entry.claimant = MacAddress{};
}

/// Another host says that it has the address of `entry`.
void Neighbours::on_claim(Entry& entry, const MacAddress& mac, Heard how, Instant now) {
  counters_.neighbour_claims++;
  if (entry.fixed) return tell(NeighbourNews::Kind::kDisputed, entry, mac, now);
  if (!entry.wanted) {
    // Hearsay against hearsay, about an address that nothing here uses: forgotten.
    entry.known = false;
    return on_first(entry, mac, how, now);
  }
  if (how == Heard::kAnswer && everybody_was_asked(entry, now)) {
    counters_.neighbour_moves++;
    tell(NeighbourNews::Kind::kMoved, entry, mac, now);
    entry.answered = true;
    entry.claimant = MacAddress{};
    entry.questions = 0;
    entry.next_question = Instant::never();
    return set_mac(entry, mac);
  }
  if (entry.claimant.is_zero()) entry.claimant = mac;
  verify(entry, now, kClaimInterval);
}

void Neighbours::tell(NeighbourNews::Kind kind, const Entry& entry, const MacAddress& claimant, Instant now) {
  const NeighbourNews news{kind, entry.ip, entry.vlan_id, entry.mac, claimant};
  if (limiter_.allows(news, now)) on_news_(news);
}

bool Neighbours::set_static(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac) {
  if (!is_unicast(ip) || own(ip, vlan_id) != nullptr) return false;
  Entry* entry = find(ip, vlan_id);
  if (entry == nullptr) entry = insert(ip, vlan_id);
  if (entry == nullptr) return false;
  entry->wanted = entry->fixed = true;
  entry->next_question = Instant::never();
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
  if (entry->known) return verify(*entry, now, kVerifyInterval);
  entry->questions = 0;
  entry->next_question = now;
  next_due_ = std::min(next_due_, now);
}

/// Is it still where it was? One round of questions at a time.
void Neighbours::verify(Entry& entry, Instant now, Duration interval) {
  const Instant at = std::max(now, entry.last_question + interval);
  const bool waits = entry.questions == 0 && entry.next_question > at;
  if (!waits && entry.next_question != Instant::never()) return;
  entry.questions = 0;
  entry.next_question = at;
  next_due_ = std::min(next_due_, entry.next_question);
}

/// The one that we wait for may be there now: asks before its time, and does not count it.
void Neighbours::ask_soon(Entry& entry, Instant now) {
  const Instant soon = std::max(now, entry.last_question + kFirstRetry);
  if (entry.next_question <= soon) return;
  if (entry.questions > 0) entry.questions--;
  entry.next_question = soon;
  next_due_ = std::min(next_due_, soon);
}

// Input.

bool Neighbours::on_frame(std::span<const uint8_t> frame, Instant now) {
  const auto link = decode_link(frame);
  if (!link || link->src_mac == mac_) return false;
  if (link->dst_mac != mac_ && !link->dst_mac.is_multicast()) return false;
  if (link->ethertype == kEtherArp) return on_arp(*link, now);
  return on_icmp(*link, now);
}

bool Neighbours::on_arp(const LinkFrame& link, Instant now) {
  const auto arp = decode_arp(link);
  if (!arp || arp->sender_mac == mac_) return false;
  const LocalAddress* target = own(arp->target_ip, link.vlan_id);
  const LocalAddress* claimed = own(arp->sender_ip, link.vlan_id);
  const bool known = find(arp->sender_ip, link.vlan_id) != nullptr;
  if (target == nullptr && claimed == nullptr && !known) return false;
  counters_.arp_rx++;
  const bool request = arp->operation == Arp::kRequest;
  if (claimed != nullptr) {
    on_conflict(*claimed, arp->sender_mac, now);
  } else {
    const bool answer = !request && link.dst_mac == mac_;
    const Heard how = target == nullptr ? Heard::kAnnouncement
                      : request         ? Heard::kQuestion
                      : answer          ? Heard::kAnswer
                                        : Heard::kAnnouncement;
    hear(arp->sender_ip, link.vlan_id, arp->sender_mac, how, target, now);
  }
  if (target != nullptr && request && !replies_.full()) {
    const Arp reply{Arp::kReply, mac_, target->ip, arp->sender_mac, arp->sender_ip};
    queue_reply(encode_arp(replies_.next_slot().data, {arp->sender_mac, mac_, link.vlan_id}, reply));
    counters_.arp_tx++;
  }
  return true;
}

bool Neighbours::on_icmp(const LinkFrame& link, Instant now) {
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
    on_advertisement(link, *message, now);
  } else {
    on_solicitation(link, *message, *target, now);
  }
  return true;
}

void Neighbours::on_solicitation(const LinkFrame& link, const NeighbourMessage& message, const LocalAddress& target,
                                 Instant now) {
  const bool probe = message.src_ip.is_zero();  // somebody checks whether the address is free
  const LocalAddress* claimed = own(message.src_ip, link.vlan_id);
  if (claimed != nullptr) return on_conflict(*claimed, message.link_layer.value_or(link.src_mac), now);
  if (!probe && message.link_layer) {
    hear(message.src_ip, link.vlan_id, *message.link_layer, Heard::kQuestion, &target, now);
  }
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

void Neighbours::on_advertisement(const LinkFrame& link, const NeighbourMessage& message, Instant now) {
  const MacAddress mac = message.link_layer.value_or(link.src_mac);
  if (const LocalAddress* claimed = own(message.target, link.vlan_id)) {
    if (mac != mac_) on_conflict(*claimed, mac, now);
    return;
  }
  const Entry* entry = find(message.target, link.vlan_id);
  if (entry == nullptr) return;
  const bool holder = entry->known && entry->mac == mac;
  // An answer to a question that came to one host alone may leave the address out: that host knows who was asked.
  if (!holder && !message.link_layer) return;
  // A proxy's or an anycast answer: what we have is better, as long as it answers.
  if (entry->known && !holder && !message.override_cache && !everybody_was_asked(*entry, now)) return;
  const LocalAddress* asked = own(message.dst_ip, link.vlan_id);
  const bool answer = message.solicited && asked != nullptr;
  hear(message.target, link.vlan_id, mac, answer ? Heard::kAnswer : Heard::kAnnouncement, asked, now);
}

/// `claimant` uses our address too. We keep it, and say so to everybody, who may believe the other one by now.
void Neighbours::on_conflict(const LocalAddress& ours, const MacAddress& claimant, Instant now) {
  counters_.address_conflicts++;
  const NeighbourNews news{NeighbourNews::Kind::kOurs, ours.ip, ours.vlan_id, mac_, claimant};
  if (limiter_.allows(news, now)) on_news_(news);
  Instant& defend_at = defend_at_[static_cast<size_t>(&ours - addresses_.data())];
  if (now < defend_at || replies_.full()) return;
  defend_at = now + kDefendInterval;
  queue_reply(write_announcement(replies_.next_slot().data, ours));
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
  const bool holder = entry.asks_holder();
  if (entry.ip.is_v4()) {
    counters_.arp_tx++;
    const Arp arp{Arp::kRequest, mac_, entry.source.ip, holder ? entry.mac : MacAddress{}, entry.ip};
    return encode_arp(out, {holder ? entry.mac : kBroadcastMac, mac_, entry.vlan_id}, arp);
  }
  counters_.nd_tx++;
  NeighbourMessage m;
  m.src_ip = entry.source.ip;
  m.dst_ip = holder ? entry.ip : solicited_node_multicast(entry.ip);
  m.target = entry.ip;
  m.link_layer = mac_;
  return encode_neighbour_message(out, {holder ? entry.mac : multicast_mac(m.dst_ip), mac_, entry.vlan_id}, m);
}

void Neighbours::schedule_next(Entry& entry, Instant now) {
  entry.questions++;
  entry.last_question = now;
  if (entry.questions >= entry.questions_max()) {
    entry.next_question = Instant::never();
    return;
  }
  const unsigned doublings = std::min(entry.questions - 1, 10u);
  entry.next_question = now + std::min(kFirstRetry * (int64_t{1} << doublings), kLastRetry);
}

void Neighbours::update_next_due() {
  next_due_ = Instant::never();
  for (const Entry& e : entries_) next_due_ = std::min(next_due_, e.next_question);
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
    if (now < entry.next_question) continue;
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
