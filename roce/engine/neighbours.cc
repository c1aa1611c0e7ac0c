#include "engine/neighbours.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "packet/route_header.h"

namespace uroce {
namespace {

constexpr Duration kDefendInterval = milliseconds(10000);  // of RFC 5227

}  // namespace

Neighbours::Neighbours(const MacAddress& mac, std::vector<LocalAddress> addresses, Counters& counters,
                       NeighbourTable::Resolved on_resolved, NewsDesk::Listener on_news)
    : mac_(mac),
      addresses_(std::move(addresses)),
      counters_(counters),
      news_(std::move(on_news)),
      table_(mac, counters, news_, std::move(on_resolved)),
      frames_(mac, counters),
      announce_next_(static_cast<uint32_t>(addresses_.size())),
      replies_(kRepliesMax),
      defend_at_(addresses_.size()) {}

void Neighbours::set_addresses(std::vector<LocalAddress> addresses) {
  addresses_ = std::move(addresses);
  announce_next_ = static_cast<uint32_t>(addresses_.size());
  defend_at_.assign(addresses_.size(), Instant{});
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
  return table_.lookup(ip, vlan_id);
}

void Neighbours::want(const IpAddress& ip, const LocalAddress& source, Instant now) {
  if (!is_unicast(ip) || own(ip, source.vlan_id) != nullptr || ip.is_v4() != source.ip.is_v4()) return;
  table_.want(ip, source, now);
}

void Neighbours::on_unresolved(const uint8_t* frame, Instant now) {
  const FrameEnds ends = ends_of(frame);
  const LocalAddress* const source = own(ends.src_ip, ends.vlan_id);
  if (source == nullptr || !is_unicast(ends.dst_ip)) return;  // the address was taken from us
  table_.want_again(ends.dst_ip, *source, now);
}

bool Neighbours::set_static(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac) {
  return own(ip, vlan_id) == nullptr && table_.set_static(ip, vlan_id, mac);
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
  const bool known = table_.has(arp->sender_ip, link.vlan_id);
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
    table_.hear({arp->sender_ip, link.vlan_id, arp->sender_mac, how, target}, now);
  }
  if (target != nullptr && request && !replies_.full()) {
    queue_reply(frames_.write_reply(reply_slot(), *arp, *target));
  }
  return true;
}

bool Neighbours::on_icmp(const LinkFrame& link, Instant now) {
  const auto icmp = decode_icmp(link);
  if (!icmp) return false;
  if (icmp->is_echo_request()) return on_echo_request(link, *icmp);
  const auto message = decode_neighbour_message(*icmp);
  if (!message) return false;
  const LocalAddress* target = own(message->target, link.vlan_id);
  if (target == nullptr && !table_.has(message->target, link.vlan_id)) return false;
  if (target == nullptr && !message->advertisement) return false;
  counters_.nd_rx++;
  if (message->advertisement) {
    on_advertisement(link, *message, now);
  } else {
    on_solicitation(link, *message, *target, now);
  }
  return true;
}

bool Neighbours::on_echo_request(const LinkFrame& link, const Icmp& request) {
  // Not for multicast: one request must not cause a flood of answers.
  if (own(request.dst_ip, link.vlan_id) == nullptr || !is_unicast(request.src_ip) || link.dst_mac != mac_) return false;
  uint32_t bytes = 0;
  if (!replies_.full()) bytes = encode_echo_reply(reply_slot(), {link.src_mac, mac_, link.vlan_id}, request);
  (bytes != 0 ? counters_.echo_replies : counters_.rx_drop_ping)++;
  queue_reply(bytes);
  return true;
}

void Neighbours::on_solicitation(const LinkFrame& link, const NeighbourMessage& message, const LocalAddress& target,
                                 Instant now) {
  const bool probe = message.src_ip.is_zero();  // a host probes whether the address is free
  const LocalAddress* claimed = own(message.src_ip, link.vlan_id);
  if (claimed != nullptr) return on_conflict(*claimed, message.link_layer.value_or(link.src_mac), now);
  if (!probe && message.link_layer) {
    table_.hear({message.src_ip, link.vlan_id, *message.link_layer, Heard::kQuestion, &target}, now);
  }
  if (!replies_.full()) queue_reply(frames_.write_reply(reply_slot(), link, message, target));
}

void Neighbours::on_advertisement(const LinkFrame& link, const NeighbourMessage& message, Instant now) {
  const MacAddress mac = message.link_layer.value_or(link.src_mac);
  if (const LocalAddress* claimed = own(message.target, link.vlan_id)) {
    if (mac != mac_) on_conflict(*claimed, mac, now);
    return;
  }
  // An answer to a unicast question may leave the MAC out: the asker knows which host it asked.
  if (!message.link_layer && table_.lookup(message.target, link.vlan_id) != mac) return;
  // A proxy's or an anycast answer: the holder that we know is better, as long as it answers.
  if (!message.override_cache && table_.has_another(message.target, link.vlan_id, mac, now)) return;
  const LocalAddress* asked = own(message.dst_ip, link.vlan_id);
  const bool answer = message.solicited && asked != nullptr;
  const Heard how = answer ? Heard::kAnswer : Heard::kAnnouncement;
  table_.hear({message.target, link.vlan_id, mac, how, asked}, now);
}

/// `claimant` uses our address too. We keep it, and announce it to all hosts, which may believe the other one by now.
void Neighbours::on_conflict(const LocalAddress& ours, const MacAddress& claimant, Instant now) {
  counters_.address_conflicts++;
  news_.tell({NeighbourNews::Kind::kOurs, ours.ip, ours.vlan_id, mac_, claimant}, now);
  const auto row = static_cast<size_t>(&ours - addresses_.data());
  ensure(row < defend_at_.size(), "an address that is defended is one of ours");
  Instant& defend_at = defend_at_[row];
  if (now < defend_at || replies_.full()) return;
  defend_at = now + kDefendInterval;
  queue_reply(frames_.write_announcement(reply_slot(), ours));
}

// Output.

/// Publishes what was just written into the next slot.
void Neighbours::queue_reply(uint32_t bytes) {
  if (bytes == 0) return;
  ensure(bytes <= kReplyBytesMax, "a reply fits its slot");
  replies_.next_slot().bytes = bytes;
  replies_.push();
}

void Neighbours::announce() { announce_next_ = 0; }

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
    frame.bytes = frames_.write_announcement(out, addresses_[announce_next_++]);
  }
  if (frame.bytes != 0) return true;
  if (const auto question = table_.take_question(now)) frame.bytes = frames_.write_question(out, *question);
  return frame.bytes != 0;
}

}  // namespace uroce
