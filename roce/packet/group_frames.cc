#include "packet/group_frames.h"

#include <algorithm>
#include <cstring>

#include "base/big_endian.h"
#include "packet/internet_checksum.h"

namespace uroce {
namespace {

constexpr uint32_t kMinFrameBytes = 60;
constexpr uint8_t kProtocolIgmp = 2;
constexpr uint8_t kProtocolIcmpv6 = 58;
constexpr uint32_t kRouterAlertBytes = 4;  // as an option of IPv4
constexpr uint32_t kHopByHopBytes = 8;     // with the same as an option of IPv6

constexpr uint8_t kIgmpQuery = 0x11;
constexpr uint8_t kIgmpV2Report = 0x16;
constexpr uint8_t kIgmpV2Leave = 0x17;
constexpr uint8_t kIgmpV3Report = 0x22;
constexpr uint8_t kMldQuery = 130;
constexpr uint8_t kMldV1Report = 131;
constexpr uint8_t kMldV1Done = 132;
constexpr uint8_t kMldV2Report = 143;
constexpr uint32_t kIgmpV2Bytes = 8;
constexpr uint32_t kIgmpV3QueryBytes = 12;
constexpr uint32_t kMldV1Bytes = 24;
constexpr uint32_t kMldV2QueryBytes = 28;

/// The types of group records of IGMPv3 and MLDv2. To want a group from any source is to exclude no source.
uint8_t record_type(GroupNews news) { return news == GroupNews::kWanted ? 2 : news == GroupNews::kNotWanted ? 3 : 4; }

/// Codes of 128 or more are a mantissa and an exponent.
uint32_t igmp_code(uint8_t code) {
  return code < 0x80 ? code : ((uint32_t{code} & 0x0F) | 0x10) << ((code >> 4 & 7) + 3);
}
uint32_t mld_code(uint16_t code) {
  return code < 0x8000 ? code : ((uint32_t{code} & 0x0FFF) | 0x1000) << ((code >> 12 & 7) + 3);
}

IpAddress ipv6_of(std::initializer_list<uint8_t> head, uint8_t last) {
  IpAddress ip;
  std::copy(head.begin(), head.end(), ip.bytes.begin());
  ip.bytes[15] = last;
  return ip;
}

std::optional<GroupQuery> decode_igmp(std::span<const uint8_t> body) {
  if (body.size() < kIpv4Bytes || (body[0] >> 4) != 4) return std::nullopt;
  const size_t header = (body[0] & 0xFu) * size_t{4};
  const size_t total = load_be16(&body[2]);
  if (body[8] != 1) return std::nullopt;  // of a router on this link
  if (body[9] != kProtocolIgmp || header < kIpv4Bytes || total > body.size() || total < header + kIgmpV2Bytes)
    return std::nullopt;
  if ((load_be16(&body[6]) & 0x3fff) != 0 || fold16(sum16(body.first(header))) != 0xFFFF) return std::nullopt;
  const auto message = body.subspan(header, total - header);
  if (message[0] != kIgmpQuery || fold16(sum16(message)) != 0xFFFF) return std::nullopt;
  GroupQuery query;
  query.old = message.size() < kIgmpV3QueryBytes;
  if (load_be32(&message[4]) != 0) query.group = IpAddress::v4(load_be32(&message[4]));
  // In tenths of a second; version 1 has none, and means ten seconds.
  const uint32_t tenths = query.old ? message[1] : igmp_code(message[1]);
  query.patience = milliseconds(100 * (tenths != 0 || !query.old ? tenths : 100));
  return query;
}

std::optional<GroupQuery> decode_mld(std::span<const uint8_t> body) {
  if (body.size() < kIpv6Bytes + kHopByHopBytes + kMldV1Bytes || (body[0] >> 4) != 6) return std::nullopt;
  const size_t payload = load_be16(&body[4]);
  if (body[6] != 0 || body[7] != 1 || payload > body.size() - kIpv6Bytes || payload < kHopByHopBytes + kMldV1Bytes)
    return std::nullopt;
  if (body[kIpv6Bytes] != kProtocolIcmpv6 || body[kIpv6Bytes + 1] != 0) return std::nullopt;
  const auto message = body.subspan(kIpv6Bytes + kHopByHopBytes, payload - kHopByHopBytes);
  const auto bytes = static_cast<uint32_t>(message.size());
  if (message[0] != kMldQuery ||
      fold16(sum16(body.subspan(8, 32)) + bytes + kProtocolIcmpv6 + sum16(message)) != 0xFFFF)
    return std::nullopt;
  GroupQuery query;
  query.ipv6 = true;
  query.old = bytes < kMldV2QueryBytes;
  std::copy_n(&message[8], 16, query.group.bytes.begin());
  const uint16_t code = load_be16(&message[4]);
  query.patience = milliseconds(query.old ? code : mld_code(code));
  return query;
}

/// Ethernet header; returns where the IP header goes, or nullptr when it does not fit.
uint8_t* begin(std::span<uint8_t> out, const MacAddress& from, uint16_t vlan_id, const IpAddress& to,
               uint32_t ip_bytes) {
  const uint32_t l2_bytes = kEthernetBytes + (vlan_id != 0 ? kVlanBytes : 0);
  if (out.size() < std::max(l2_bytes + ip_bytes, kMinFrameBytes)) return nullptr;
  std::memset(out.data(), 0, std::max(l2_bytes + ip_bytes, kMinFrameBytes));
  std::copy_n(multicast_mac(to).bytes.begin(), 6, out.data());
  std::copy_n(from.bytes.begin(), 6, out.data() + 6);
  uint8_t* p = out.data() + 12;
  if (vlan_id != 0) {
    store_be16(p, kEtherVlan);
    store_be16(p + 2, vlan_id & 0x0fff);
    p += 4;
  }
  store_be16(p, to.is_v4() ? kEtherIpv4 : kEtherIpv6);
  return p + 2;
}

void write_ipv4(uint8_t* ip, const IpAddress& from, const IpAddress& to, uint32_t message_bytes) {
  constexpr uint32_t kHeader = kIpv4Bytes + kRouterAlertBytes;
  ip[0] = 0x46;
  ip[1] = 0xC0;  // internetwork control
  store_be16(ip + 2, static_cast<uint16_t>(kHeader + message_bytes));
  ip[6] = 0x40;  // DF
  ip[8] = 1;
  ip[9] = kProtocolIgmp;
  store_be32(ip + 12, from.v4_host_order());
  store_be32(ip + 16, to.v4_host_order());
  store_be32(ip + 20, 0x94040000);  // router alert
  store_be16(ip + 10, static_cast<uint16_t>(~fold16(sum16({ip, kHeader}))));
}

uint32_t encode_igmp(std::span<uint8_t> out, const MacAddress& src_mac, uint16_t vlan_id, const GroupReport& report) {
  constexpr uint32_t kAllRouters = 0xE0000002, kAllV3Routers = 0xE0000016;
  const bool leaves = report.news == GroupNews::kNotWanted;
  const IpAddress to = !report.old ? IpAddress::v4(kAllV3Routers) : leaves ? IpAddress::v4(kAllRouters) : report.group;
  const uint32_t bytes = report.old ? kIgmpV2Bytes : 16;
  uint8_t* const ip = begin(out, src_mac, vlan_id, to, kIpv4Bytes + kRouterAlertBytes + bytes);
  if (ip == nullptr) return 0;
  write_ipv4(ip, report.source, to, bytes);
  uint8_t* const p = ip + kIpv4Bytes + kRouterAlertBytes;
  if (report.old) {
    p[0] = leaves ? kIgmpV2Leave : kIgmpV2Report;
    store_be32(p + 4, report.group.v4_host_order());
  } else {
    p[0] = kIgmpV3Report;
    store_be16(p + 6, 1);  // one record
    p[8] = record_type(report.news);
    store_be32(p + 12, report.group.v4_host_order());
  }
  store_be16(p + 2, static_cast<uint16_t>(~fold16(sum16({p, bytes}))));
  return std::max(static_cast<uint32_t>(p + bytes - out.data()), kMinFrameBytes);
}

void write_ipv6(uint8_t* ip, const IpAddress& from, const IpAddress& to, uint32_t message_bytes) {
  constexpr uint8_t kHopByHop[kHopByHopBytes] = {kProtocolIcmpv6, 0, 5, 2, 0, 0, 1, 0};  // router alert, padding
  store_be32(ip, 6u << 28);
  store_be16(ip + 4, static_cast<uint16_t>(kHopByHopBytes + message_bytes));
  ip[7] = 1;
  std::copy(from.bytes.begin(), from.bytes.end(), ip + 8);
  std::copy(to.bytes.begin(), to.bytes.end(), ip + 24);
  std::copy_n(kHopByHop, kHopByHopBytes, ip + kIpv6Bytes);
}

uint32_t encode_mld(std::span<uint8_t> out, const MacAddress& src_mac, uint16_t vlan_id, const GroupReport& report) {
  const bool leaves = report.news == GroupNews::kNotWanted;
  const IpAddress to = !report.old ? ipv6_of({0xff, 2}, 0x16) : leaves ? ipv6_of({0xff, 2}, 2) : report.group;
  const uint32_t bytes = report.old ? kMldV1Bytes : 28;
  uint8_t* const ip = begin(out, src_mac, vlan_id, to, kIpv6Bytes + kHopByHopBytes + bytes);
  if (ip == nullptr) return 0;
  write_ipv6(ip, report.source, to, bytes);
  uint8_t* const p = ip + kIpv6Bytes + kHopByHopBytes;
  if (report.old) {
    p[0] = leaves ? kMldV1Done : kMldV1Report;
    std::copy(report.group.bytes.begin(), report.group.bytes.end(), p + 8);
  } else {
    p[0] = kMldV2Report;
    store_be16(p + 6, 1);
    p[8] = record_type(report.news);
    std::copy(report.group.bytes.begin(), report.group.bytes.end(), p + 12);
  }
  store_be16(p + 2, static_cast<uint16_t>(~fold16(sum16({ip + 8, 32}) + bytes + kProtocolIcmpv6 + sum16({p, bytes}))));
  return std::max(static_cast<uint32_t>(p + bytes - out.data()), kMinFrameBytes);
}

}  // namespace

std::optional<GroupQuery> decode_group_query(const LinkFrame& frame) {
  if (frame.ethertype == kEtherIpv4) return decode_igmp(frame.body);
  if (frame.ethertype == kEtherIpv6) return decode_mld(frame.body);
  return std::nullopt;
}

uint32_t encode_group_report(std::span<uint8_t> out, const MacAddress& src_mac, uint16_t vlan_id,
                             const GroupReport& report) {
  return report.group.is_v4() ? encode_igmp(out, src_mac, vlan_id, report) : encode_mld(out, src_mac, vlan_id, report);
}

}  // namespace uroce
