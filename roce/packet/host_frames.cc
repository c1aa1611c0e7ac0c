#include "packet/host_frames.h"

#include <algorithm>
#include <cstring>

#include "base/big_endian.h"
#include "packet/internet_checksum.h"

namespace uroce {
namespace {

constexpr uint32_t kMinFrameBytes = 60;  // without the frame check sequence
constexpr uint32_t kArpBytes = 28;
constexpr uint32_t kIcmpMinBytes = 8;
constexpr uint32_t kNeighbourBytes = 24;  // type, code, checksum, flags, target
constexpr uint32_t kOptionBytes = 8;      // a link-layer address option for Ethernet
constexpr uint8_t kProtocolIcmp = 1;
constexpr uint8_t kProtocolIcmpv6 = 58;
constexpr uint8_t kSolicitation = 135;
constexpr uint8_t kAdvertisement = 136;
constexpr uint8_t kOptionSourceLink = 1;
constexpr uint8_t kOptionTargetLink = 2;
constexpr uint8_t kFlagSolicited = 0x40;
constexpr uint8_t kFlagOverride = 0x20;
constexpr uint8_t kNeighbourHopLimit = 255;  // proves that no router passed it on
constexpr uint8_t kOwnHopLimit = 64;

MacAddress load_mac(const uint8_t* p) {
  MacAddress mac;
  std::memcpy(mac.bytes.data(), p, 6);
  return mac;
}

IpAddress load_ipv6(const uint8_t* p) {
  IpAddress ip;
  std::memcpy(ip.bytes.data(), p, 16);
  return ip;
}

void store(uint8_t* p, const MacAddress& mac) { std::memcpy(p, mac.bytes.data(), 6); }
void store(uint8_t* p, const IpAddress& ip) { std::memcpy(p, ip.bytes.data(), 16); }

/// The sum of the pseudo header that an ICMPv6 checksum covers.
uint32_t pseudo_sum(const uint8_t* ipv6, uint32_t message_bytes) {
  return sum16({ipv6 + 8, 32}) + message_bytes + kProtocolIcmpv6;
}

/// Writes the Ethernet header; returns where the body goes, or nullptr when `body_bytes` do not fit.
uint8_t* begin_frame(std::span<uint8_t> out, const LinkAddress& link, uint16_t ethertype, uint32_t body_bytes) {
  const uint32_t l2_bytes = kEthernetBytes + (link.vlan_id != 0 ? kVlanBytes : 0);
  if (out.size() < std::max(l2_bytes + body_bytes, kMinFrameBytes)) return nullptr;
  std::memset(out.data(), 0, kMinFrameBytes);
  uint8_t* p = out.data();
  store(p, link.dst_mac);
  store(p + 6, link.src_mac);
  p += 12;
  if (link.vlan_id != 0) {
    store_be16(p, kEtherVlan);
    store_be16(p + 2, link.vlan_id & 0x0fff);
    p += 4;
  }
  store_be16(p, ethertype);
  return p + 2;
}

uint32_t frame_bytes(std::span<uint8_t> out, const uint8_t* end) {
  return std::max(static_cast<uint32_t>(end - out.data()), kMinFrameBytes);
}

void write_ipv6(uint8_t* ip, const IpAddress& src, const IpAddress& dst, uint8_t hop_limit, uint32_t message_bytes) {
  store_be32(ip, 6u << 28);
  store_be16(ip + 4, static_cast<uint16_t>(message_bytes));
  ip[6] = kProtocolIcmpv6;
  ip[7] = hop_limit;
  store(ip + 8, src);
  store(ip + 24, dst);
}

void write_ipv4(uint8_t* ip, const IpAddress& src, const IpAddress& dst, uint32_t message_bytes) {
  std::memset(ip, 0, kIpv4Bytes);
  ip[0] = 0x45;
  store_be16(ip + 2, static_cast<uint16_t>(kIpv4Bytes + message_bytes));
  ip[6] = 0x40;  // DF
  ip[8] = kOwnHopLimit;
  ip[9] = kProtocolIcmp;
  store_be32(ip + 12, src.v4_host_order());
  store_be32(ip + 16, dst.v4_host_order());
  store_be16(ip + 10, static_cast<uint16_t>(~fold16(sum16({ip, kIpv4Bytes}))));
}

std::optional<Icmp> decode_icmpv4(std::span<const uint8_t> body) {
  if (body.size() < kIpv4Bytes + kIcmpMinBytes) return std::nullopt;
  const uint8_t* ip = body.data();
  const uint32_t total_bytes = load_be16(ip + 2);
  if (ip[0] != 0x45 || ip[9] != kProtocolIcmp || (load_be16(ip + 6) & 0x3fff) != 0) return std::nullopt;
  if (total_bytes > body.size() || total_bytes < kIpv4Bytes + kIcmpMinBytes) return std::nullopt;
  if (fold16(sum16({ip, kIpv4Bytes})) != 0xFFFF) return std::nullopt;
  Icmp icmp;
  icmp.message = body.subspan(kIpv4Bytes, total_bytes - kIpv4Bytes);
  if (fold16(sum16(icmp.message)) != 0xFFFF) return std::nullopt;
  icmp.src_ip = IpAddress::v4(load_be32(ip + 12));
  icmp.dst_ip = IpAddress::v4(load_be32(ip + 16));
  icmp.hop_limit = ip[8];
  return icmp;
}

std::optional<Icmp> decode_icmpv6(std::span<const uint8_t> body) {
  if (body.size() < kIpv6Bytes + kIcmpMinBytes) return std::nullopt;
  const uint8_t* ip = body.data();
  const uint32_t message_bytes = load_be16(ip + 4);
  if ((ip[0] >> 4) != 6 || ip[6] != kProtocolIcmpv6) return std::nullopt;
  if (message_bytes > body.size() - kIpv6Bytes || message_bytes < kIcmpMinBytes) return std::nullopt;
  Icmp icmp;
  icmp.message = body.subspan(kIpv6Bytes, message_bytes);
  if (fold16(pseudo_sum(ip, message_bytes) + sum16(icmp.message)) != 0xFFFF) return std::nullopt;
  icmp.src_ip = load_ipv6(ip + 8);
  icmp.dst_ip = load_ipv6(ip + 24);
  // This code takes a mapped IPv4 address for an IPv4 address everywhere, so an IPv6 header must not contain one.
  if (icmp.src_ip.is_v4() || icmp.dst_ip.is_v4()) return std::nullopt;
  icmp.hop_limit = ip[7];
  return icmp;
}

/// The first link-layer address option of type `wanted`. False when the options are malformed.
bool find_link_option(std::span<const uint8_t> options, uint8_t wanted, std::optional<MacAddress>& found) {
  while (!options.empty()) {
    if (options.size() < 2) return false;
    const size_t bytes = options[1] * size_t{8};
    if (bytes == 0 || bytes > options.size()) return false;
    if (options[0] == wanted && bytes == kOptionBytes && !found) found = load_mac(options.data() + 2);
    options = options.subspan(bytes);
  }
  return true;
}

}  // namespace

std::optional<LinkFrame> decode_link(std::span<const uint8_t> frame) {
  if (frame.size() < kEthernetBytes) return std::nullopt;
  LinkFrame link{load_mac(frame.data()), load_mac(frame.data() + 6), 0, load_be16(frame.data() + 12), {}};
  uint32_t l2_bytes = kEthernetBytes;
  if (link.ethertype == kEtherVlan) {
    l2_bytes += kVlanBytes;
    if (frame.size() < l2_bytes) return std::nullopt;
    link.vlan_id = load_be16(frame.data() + 14) & 0x0fff;
    link.ethertype = load_be16(frame.data() + 16);
  }
  link.body = frame.subspan(l2_bytes);
  return link;
}

MacAddress multicast_mac(const IpAddress& ip) {
  const auto& b = ip.bytes;
  if (!ip.is_v4()) return {{0x33, 0x33, b[12], b[13], b[14], b[15]}};
  if (ip.v4_host_order() == 0xFFFFFFFF) return kBroadcastMac;
  return {{0x01, 0x00, 0x5e, static_cast<uint8_t>(b[13] & 0x7f), b[14], b[15]}};
}

std::optional<Arp> decode_arp(const LinkFrame& frame) {
  if (frame.ethertype != kEtherArp || frame.body.size() < kArpBytes) return std::nullopt;
  const uint8_t* p = frame.body.data();
  constexpr uint8_t kEthernetIpv4[6] = {0, 1, 8, 0, 6, 4};
  if (std::memcmp(p, kEthernetIpv4, sizeof kEthernetIpv4) != 0) return std::nullopt;
  Arp arp;
  arp.operation = load_be16(p + 6);
  if (arp.operation != Arp::kRequest && arp.operation != Arp::kReply) return std::nullopt;
  arp.sender_mac = load_mac(p + 8);
  if (arp.sender_mac.is_multicast() || arp.sender_mac.is_zero()) return std::nullopt;
  arp.sender_ip = IpAddress::v4(load_be32(p + 14));
  if (arp.sender_ip.is_multicast()) return std::nullopt;
  arp.target_mac = load_mac(p + 18);
  arp.target_ip = IpAddress::v4(load_be32(p + 24));
  return arp;
}

uint32_t encode_arp(std::span<uint8_t> out, const LinkAddress& link, const Arp& arp) {
  uint8_t* p = begin_frame(out, link, kEtherArp, kArpBytes);
  if (p == nullptr) return 0;
  store_be16(p, 1);
  store_be16(p + 2, kEtherIpv4);
  p[4] = 6;
  p[5] = 4;
  store_be16(p + 6, arp.operation);
  store(p + 8, arp.sender_mac);
  store_be32(p + 14, arp.sender_ip.v4_host_order());
  store(p + 18, arp.target_mac);
  store_be32(p + 24, arp.target_ip.v4_host_order());
  return frame_bytes(out, p + kArpBytes);
}

std::optional<Icmp> decode_icmp(const LinkFrame& frame) {
  if (frame.ethertype == kEtherIpv4) return decode_icmpv4(frame.body);
  if (frame.ethertype == kEtherIpv6) return decode_icmpv6(frame.body);
  return std::nullopt;
}

uint32_t encode_echo_reply(std::span<uint8_t> out, const LinkAddress& link, const Icmp& request) {
  const bool v4 = request.dst_ip.is_v4();
  const uint32_t ip_bytes = v4 ? kIpv4Bytes : kIpv6Bytes;
  const auto message_bytes = static_cast<uint32_t>(request.message.size());
  uint8_t* ip = begin_frame(out, link, v4 ? kEtherIpv4 : kEtherIpv6, ip_bytes + message_bytes);
  if (ip == nullptr) return 0;
  uint8_t* message = ip + ip_bytes;
  std::copy(request.message.begin(), request.message.end(), message);
  message[0] = v4 ? 0 : 129;
  store_be16(message + 2, 0);
  uint32_t sum = sum16({message, message_bytes});
  if (v4) {
    write_ipv4(ip, request.dst_ip, request.src_ip, message_bytes);
  } else {
    write_ipv6(ip, request.dst_ip, request.src_ip, kOwnHopLimit, message_bytes);
    sum += pseudo_sum(ip, message_bytes);
  }
  store_be16(message + 2, static_cast<uint16_t>(~fold16(sum)));
  return frame_bytes(out, message + message_bytes);
}

std::optional<NeighbourMessage> decode_neighbour_message(const Icmp& icmp) {
  if (icmp.dst_ip.is_v4() || icmp.hop_limit != kNeighbourHopLimit) return std::nullopt;
  const bool advertisement = icmp.type() == kAdvertisement;
  if ((!advertisement && icmp.type() != kSolicitation) || icmp.code() != 0) return std::nullopt;
  if (icmp.message.size() < kNeighbourBytes) return std::nullopt;
  const uint8_t* p = icmp.message.data();
  NeighbourMessage m;
  m.advertisement = advertisement;
  m.solicited = advertisement && (p[4] & kFlagSolicited) != 0;
  m.override_cache = advertisement && (p[4] & kFlagOverride) != 0;
  m.src_ip = icmp.src_ip;
  m.dst_ip = icmp.dst_ip;
  m.target = load_ipv6(p + 8);
  if (m.target.is_multicast() || m.target.is_v4()) return std::nullopt;
  const uint8_t option = advertisement ? kOptionTargetLink : kOptionSourceLink;
  if (!find_link_option(icmp.message.subspan(kNeighbourBytes), option, m.link_layer)) return std::nullopt;
  if (m.link_layer && (m.link_layer->is_multicast() || m.link_layer->is_zero())) return std::nullopt;
  if (advertisement) {
    if (m.dst_ip.is_multicast() && m.solicited) return std::nullopt;
  } else if (m.src_ip.is_zero()) {  // a duplicate address probe
    if (m.link_layer || m.dst_ip != solicited_node_multicast(m.target)) return std::nullopt;
  }
  return m;
}

uint32_t encode_neighbour_message(std::span<uint8_t> out, const LinkAddress& link, const NeighbourMessage& m) {
  const uint32_t message_bytes = kNeighbourBytes + (m.link_layer ? kOptionBytes : 0);
  uint8_t* ip = begin_frame(out, link, kEtherIpv6, kIpv6Bytes + message_bytes);
  if (ip == nullptr) return 0;
  write_ipv6(ip, m.src_ip, m.dst_ip, kNeighbourHopLimit, message_bytes);
  uint8_t* p = ip + kIpv6Bytes;
  std::memset(p, 0, message_bytes);
  p[0] = m.advertisement ? kAdvertisement : kSolicitation;
  p[4] = static_cast<uint8_t>((m.solicited ? kFlagSolicited : 0) | (m.override_cache ? kFlagOverride : 0));
  store(p + 8, m.target);
  if (m.link_layer) {
    p[kNeighbourBytes] = m.advertisement ? kOptionTargetLink : kOptionSourceLink;
    p[kNeighbourBytes + 1] = kOptionBytes / 8;
    store(p + kNeighbourBytes + 2, *m.link_layer);
  }
  const uint32_t sum = pseudo_sum(ip, message_bytes) + sum16({p, message_bytes});
  store_be16(p + 2, static_cast<uint16_t>(~fold16(sum)));
  return frame_bytes(out, p + message_bytes);
}

uint32_t encode_neighbour_answer(std::span<uint8_t> out, const LinkAddress& link, const IpAddress& ip,
                                 const IpAddress& asker) {
  if (ip.is_v4()) return encode_arp(out, link, {Arp::kReply, link.src_mac, ip, link.dst_mac, asker});
  NeighbourMessage answer;
  answer.advertisement = answer.solicited = answer.override_cache = true;
  answer.src_ip = answer.target = ip;
  answer.dst_ip = asker;
  answer.link_layer = link.src_mac;
  return encode_neighbour_message(out, link, answer);
}

IpAddress solicited_node_multicast(const IpAddress& ip) {
  IpAddress m;
  m.bytes = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, ip.bytes[13], ip.bytes[14], ip.bytes[15]};
  return m;
}

IpAddress all_nodes_multicast() {
  IpAddress m;
  m.bytes[0] = 0xff;
  m.bytes[1] = 2;
  m.bytes[15] = 1;
  return m;
}

}  // namespace uroce
