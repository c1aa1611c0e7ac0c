// Neighbours as timelines: frames in, frames out, time handed in.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/neighbours.h"
#include "transport/counters.h"

namespace uroce::test {

using Bytes = std::vector<uint8_t>;

inline IpAddress ip(const char* text) { return *parse_ip(text); }
inline MacAddress mac(const char* text) { return *parse_mac(text); }
inline LocalAddress local(const char* text) { return *parse_local_address(text); }

inline const MacAddress kOurs = mac("52:54:00:00:00:01");
inline const MacAddress kPeer = mac("52:54:00:00:00:02");
inline const MacAddress kOther = mac("52:54:00:00:00:03");
inline const Instant kStart{milliseconds(5000).ns};

class NeighboursTest : public testing::Test {
 protected:
  struct Resolution {
    IpAddress ip;
    uint16_t vlan_id;
    MacAddress mac;
    bool operator==(const Resolution&) const = default;
  };

  NeighboursTest() {
    restart({local("10.0.0.1/24"), local("fd00::1/64"), local("10.1.0.1/24@100"), local("fd01::1/64@100")});
  }

  void restart(std::vector<LocalAddress> addresses) {
    addresses_ = std::move(addresses);
    counters_ = {};
    neighbours_ = std::make_unique<Neighbours>(
        kOurs, addresses_, counters_,
        [this](const IpAddress& address, uint16_t vlan_id, const MacAddress& found) {
          resolved_.push_back({address, vlan_id, found});
        },
        [this](const NeighbourNews& news) { news_.push_back(to_string(news)); });
  }

  /// The next frame to send at `now`; empty when there is none.
  Bytes poll(Instant now, uint32_t capacity = 2048) {
    Bytes room(capacity, 0xee);
    TxFrame frame{room.data(), capacity, 0, nullptr};
    const bool more = neighbours_->poll_transmit(frame, now);
    EXPECT_EQ(more, frame.bytes != 0);
    EXPECT_LE(frame.bytes, capacity);
    room.resize(frame.bytes);
    return room;
  }

  bool receive(const Bytes& frame, Instant now = kStart) { return neighbours_->on_frame(frame, now); }

  static Bytes arp_frame(const Arp& arp, const MacAddress& to, uint16_t vlan_id = 0) {
    Bytes frame(100);
    frame.resize(encode_arp(frame, {to, arp.sender_mac, vlan_id}, arp));
    return frame;
  }
  static Bytes request(const MacAddress& from, const char* from_ip, const char* for_ip, uint16_t vlan_id = 0) {
    return arp_frame({Arp::kRequest, from, ip(from_ip), {}, ip(for_ip)}, kBroadcastMac, vlan_id);
  }
  static Bytes reply(const MacAddress& from, const char* from_ip, const char* to_ip, uint16_t vlan_id = 0) {
    return arp_frame({Arp::kReply, from, ip(from_ip), kOurs, ip(to_ip)}, kOurs, vlan_id);
  }

  static Bytes nd_frame(const NeighbourMessage& m, const MacAddress& from, const MacAddress& to, uint16_t vlan_id = 0) {
    Bytes frame(200);
    frame.resize(encode_neighbour_message(frame, {to, from, vlan_id}, m));
    return frame;
  }
  static Bytes solicitation(const MacAddress& from, const char* from_ip, const char* target, uint16_t vlan_id = 0) {
    NeighbourMessage m;
    m.src_ip = ip(from_ip);
    m.target = ip(target);
    m.dst_ip = solicited_node_multicast(m.target);
    if (!m.src_ip.is_zero()) m.link_layer = from;
    return nd_frame(m, from, multicast_mac(m.dst_ip), vlan_id);
  }
  static Bytes advertisement(const MacAddress& from, const char* target, bool override_cache = true,
                             uint16_t vlan_id = 0) {
    NeighbourMessage m;
    m.advertisement = true;
    m.override_cache = override_cache;
    m.src_ip = m.target = ip(target);
    m.dst_ip = all_nodes_multicast();
    m.link_layer = from;
    return nd_frame(m, from, multicast_mac(m.dst_ip), vlan_id);
  }

  /// The answer to our solicitation. Without `link_layer` as Linux answers a unicast one.
  static Bytes answer(const MacAddress& from, const char* target, const char* to_ip, uint16_t vlan_id = 0,
                      bool link_layer = true) {
    NeighbourMessage m;
    m.advertisement = m.solicited = true;
    m.override_cache = link_layer;
    m.src_ip = m.target = ip(target);
    m.dst_ip = ip(to_ip);
    if (link_layer) m.link_layer = from;
    return nd_frame(m, from, kOurs, vlan_id);
  }

  /// Makes 10.0.0.2 and fd00::2 known and in use, with kPeer as their holder.
  void meet() {
    neighbours_->want(ip("10.0.0.2"), addresses_[0], kStart);
    neighbours_->want(ip("fd00::2"), addresses_[1], kStart);
    drain(kStart);
    ASSERT_TRUE(receive(reply(kPeer, "10.0.0.2", "10.0.0.1")));
    ASSERT_TRUE(receive(answer(kPeer, "fd00::2", "fd00::1")));
    ASSERT_TRUE(holds("10.0.0.2", kPeer) && holds("fd00::2", kPeer));
    resolved_.clear();
  }
  void drain(Instant now) {
    while (!poll(now).empty()) {
    }
  }
  bool holds(const char* address, const MacAddress& owner) { return neighbours_->lookup(ip(address), 0) == owner; }
  /// Hosts answer all questions from `begin` to `end`, a millisecond at a time.
  void live(Instant begin, Instant end, const std::vector<MacAddress>& hosts) {
    for (Instant now = begin; now <= end; now = now + milliseconds(1)) {
      for (Bytes frame = poll(now); !frame.empty(); frame = poll(now)) {
        asked_.emplace_back(now, decode_link(frame)->dst_mac);
        for (const MacAddress& host : hosts) answer_question(frame, host, now);
      }
    }
  }
  void answer_question(const Bytes& frame, const MacAddress& host, Instant now) {
    const auto link = decode_link(frame);
    const bool alone = link->dst_mac == host;
    if (!alone && !link->dst_mac.is_multicast()) return;
    if (link->ethertype == kEtherArp) {
      receive(reply(host, "10.0.0.2", "10.0.0.1"), now);
    } else {
      receive(answer(host, "fd00::2", "fd00::1", 0, !alone), now);
    }
  }

  /// What a third host on the wire may send about an address in use: replies, announcements, questions.
  static std::vector<Bytes> forgeries(const MacAddress& from) {
    return {reply(from, "10.0.0.2", "10.0.0.1"),   request(from, "10.0.0.2", "10.0.0.2"),
            request(from, "10.0.0.2", "10.0.0.1"), answer(from, "fd00::2", "fd00::1"),
            advertisement(from, "fd00::2"),        solicitation(from, "fd00::2", "fd00::1")};
  }

  static std::optional<Arp> sent_arp(const Bytes& frame, uint16_t vlan_id, const MacAddress& to) {
    const auto link = decode_link(frame);
    if (!link || link->vlan_id != vlan_id || link->dst_mac != to || link->src_mac != kOurs) return std::nullopt;
    return decode_arp(*link);
  }
  static std::optional<NeighbourMessage> sent_nd(const Bytes& frame, uint16_t vlan_id, const MacAddress& to) {
    const auto link = decode_link(frame);
    if (!link || link->vlan_id != vlan_id || link->dst_mac != to || link->src_mac != kOurs) return std::nullopt;
    const auto icmp = decode_icmp(*link);
    return icmp ? decode_neighbour_message(*icmp) : std::nullopt;
  }

  std::vector<LocalAddress> addresses_;
  Counters counters_;
  std::vector<Resolution> resolved_;
  std::vector<std::string> news_;
  std::vector<std::pair<Instant, MacAddress>> asked_;
  std::unique_ptr<Neighbours> neighbours_;
};

}  // namespace uroce::test
