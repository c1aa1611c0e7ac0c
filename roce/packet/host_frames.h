// What a host on an Ethernet must speak besides RoCE: ARP, IPv6 neighbour discovery, and ping.
//
// `decode_*` returns nothing for a frame that is malformed, or that RFC 826, 4861, 792 or 4443 says to ignore silently.
// `encode_*` writes a whole frame, padded to Ethernet's minimum, and returns its length, or 0 when it does not fit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "packet/network_headers.h"
#include "uroce/address.h"

namespace uroce {

struct LinkFrame {
  MacAddress dst_mac;
  MacAddress src_mac;
  uint16_t vlan_id = 0;  // 0: untagged, or only priority-tagged
  uint16_t ethertype = 0;
  std::span<const uint8_t> body;
};

/// Takes frames with no or one 802.1Q tag. `body` points into `frame`.
std::optional<LinkFrame> decode_link(std::span<const uint8_t> frame);

/// What `encode_*` begins a frame with.
struct LinkAddress {
  MacAddress dst_mac;
  MacAddress src_mac;
  uint16_t vlan_id = 0;
};

/// The MAC address that an IP multicast (or limited broadcast) address maps to.
MacAddress multicast_mac(const IpAddress& ip);

struct Arp {
  static constexpr uint16_t kRequest = 1;
  static constexpr uint16_t kReply = 2;
  uint16_t operation = 0;
  MacAddress sender_mac;
  IpAddress sender_ip;
  MacAddress target_mac;
  IpAddress target_ip;
};

std::optional<Arp> decode_arp(const LinkFrame& frame);
uint32_t encode_arp(std::span<uint8_t> out, const LinkAddress& link, const Arp& arp);

/// An ICMP or ICMPv6 message whose checksums hold, from an unfragmented datagram without options. `message` points into
/// the frame.
struct Icmp {
  IpAddress src_ip;
  IpAddress dst_ip;
  uint8_t hop_limit = 0;
  std::span<const uint8_t> message;  // type, code, checksum, ...: at least eight bytes

  uint8_t type() const { return message[0]; }
  uint8_t code() const { return message[1]; }
  bool is_echo_request() const { return type() == (dst_ip.is_v4() ? 8 : 128) && code() == 0; }
};

std::optional<Icmp> decode_icmp(const LinkFrame& frame);
/// The answer to `request`, from `source` (the address that was pinged).
uint32_t encode_echo_reply(std::span<uint8_t> out, const LinkAddress& link, const Icmp& request);

/// A neighbour solicitation or advertisement.
struct NeighbourMessage {
  bool advertisement = false;
  bool solicited = false;  // advertisements only, like override_cache
  bool override_cache = false;
  IpAddress src_ip;
  IpAddress dst_ip;
  IpAddress target;
  std::optional<MacAddress> link_layer;  // source (solicitation) or target (advertisement) link-layer address option
};

std::optional<NeighbourMessage> decode_neighbour_message(const Icmp& icmp);
uint32_t encode_neighbour_message(std::span<uint8_t> out, const LinkAddress& link, const NeighbourMessage& message);

/// That `link.src_mac` has `ip`, to the host at `link.dst_mac` that asked from `asker`: an ARP reply, or a neighbour
/// advertisement.
uint32_t encode_neighbour_answer(std::span<uint8_t> out, const LinkAddress& link, const IpAddress& ip,
                                 const IpAddress& asker);

/// ff02::1:ffXX:XXXX of `ip`.
IpAddress solicited_node_multicast(const IpAddress& ip);
/// ff02::1
IpAddress all_nodes_multicast();

}  // namespace uroce
