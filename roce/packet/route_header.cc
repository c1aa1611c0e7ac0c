#include "packet/route_header.h"

#include <algorithm>
#include <cstring>

#include "base/big_endian.h"
#include "packet/headers.h"
#include "packet/icrc.h"
#include "packet/network_headers.h"

namespace uroce {
namespace {

void write_ipv4(uint8_t* ip, const Route& spec) {
  ip[0] = 0x45;
  ip[1] = spec.traffic_class;
  ip[6] = 0x40;  // DF
  ip[8] = spec.hop_limit;
  ip[9] = kProtocolUdp;
  store_be32(ip + 12, spec.src_ip.v4_host_order());
  store_be32(ip + 16, spec.dst_ip.v4_host_order());
}

void write_ipv6(uint8_t* ip, const Route& spec) {
  store_be32(ip, (6u << 28) | (uint32_t{spec.traffic_class} << 20) | (spec.flow_label & 0xFFFFF));
  ip[6] = kProtocolUdp;
  ip[7] = spec.hop_limit;
  std::copy(spec.src_ip.bytes.begin(), spec.src_ip.bytes.end(), ip + 8);
  std::copy(spec.dst_ip.bytes.begin(), spec.dst_ip.bytes.end(), ip + 24);
}

}  // namespace

RouteHeader::RouteHeader(const Route& spec) : ipv6_(!spec.src_ip.is_v4()) {
  uint8_t* p = template_.data();
  std::copy(spec.dst_mac.bytes.begin(), spec.dst_mac.bytes.end(), p);
  std::copy(spec.src_mac.bytes.begin(), spec.src_mac.bytes.end(), p + 6);
  p += 12;
  if (spec.vlan_id != 0) {
    store_be16(p, kEtherVlan);
    store_be16(p + 2, static_cast<uint16_t>(((spec.pcp & 7) << 13) | (spec.vlan_id & 0x0fff)));
    p += 4;
  }
  store_be16(p, ipv6_ ? kEtherIpv6 : kEtherIpv4);
  p += 2;
  l3_offset_ = static_cast<uint8_t>(p - template_.data());
  if (ipv6_) {
    write_ipv6(p, spec);
  } else {
    write_ipv4(p, spec);
    for (uint32_t i = 0; i < kIpv4Bytes; i += 2) ipv4_partial_sum_ += load_be16(p + i);
  }
  p += ipv6_ ? kIpv6Bytes : kIpv4Bytes;
  store_be16(p, spec.udp_src_port);
  store_be16(p + 2, kRoceUdpPort);
  bytes_ = static_cast<uint8_t>(p + kUdpBytes - template_.data());
}

void RouteHeader::write(uint8_t* frame, uint32_t udp_payload_bytes, Psn psn) const {
  // Two copies of constant size that overlap: every header is 42 to 66 bytes long.
  constexpr uint32_t kShortest = 14 + 20 + 8;
  constexpr uint32_t kTail = 32;
  static_assert(kMaxBytes - kTail <= kShortest);
  std::memcpy(frame, template_.data(), kShortest);
  std::memcpy(frame + bytes_ - kTail, template_.data() + bytes_ - kTail, kTail);

  const uint32_t udp_bytes = kUdpBytes + udp_payload_bytes;
  uint8_t* ip = frame + l3_offset_;
  if (ipv6_) {
    store_be16(ip + 4, static_cast<uint16_t>(udp_bytes));
    store_be16(ip + kIpv6Bytes + 4, static_cast<uint16_t>(udp_bytes));
    return;
  }
  const uint32_t total_bytes = kIpv4Bytes + udp_bytes;
  store_be16(ip + 2, static_cast<uint16_t>(total_bytes));
  uint32_t sum = ipv4_partial_sum_ + total_bytes;
  if (signature_.is_set()) {
    const uint16_t identification = signature_.identification(psn);
    store_be16(ip + 4, identification);
    sum += identification;
  }
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  store_be16(ip + 10, static_cast<uint16_t>(~sum));
  store_be16(ip + kIpv4Bytes + 4, static_cast<uint16_t>(udp_bytes));
}

RouteHeader::Summed RouteHeader::write(uint8_t* frame, uint32_t udp_payload_bytes, const Bth& bth) const {
  const Like like{bth.head(), udp_payload_bytes};
  uint8_t* const at = frame + bytes_;
  if (like == prepared_for_) {
    // As above: they are 50 to 74 bytes long.
    constexpr uint32_t kHead = 48;
    constexpr uint32_t kTail = 32;
    static_assert(sizeof prepared_.bytes - kTail <= kHead);
    const uint32_t tail = bytes_ + Bth::kHeadBytes - kTail;
    std::memcpy(frame, prepared_.bytes.data(), kHead);
    std::memcpy(frame + tail, prepared_.bytes.data() + tail, kTail);
    store_be32(at + Bth::kHeadBytes, bth.tail());
    return {prepared_.crc, Bth::kHeadBytes};
  }
  write(frame, udp_payload_bytes, bth.psn);
  bth.encode(at);
  if (like == seen_ && !signature_.is_set()) prepare(frame, like);
  seen_ = like;
  return {icrc_begin(frame + l3_offset_, ipv6_), Bth::kBytes};
}

void RouteHeader::prepare(const uint8_t* frame, const Like& like) const {
  std::memcpy(prepared_.bytes.data(), frame, bytes_ + Bth::kHeadBytes);
  prepared_.crc = icrc_to_bth_head(frame + l3_offset_, ipv6_);
  prepared_for_ = like;
}

void RouteHeader::set_dst_mac(const MacAddress& mac) {
  forget_prepared();
  std::copy(mac.bytes.begin(), mac.bytes.end(), template_.begin());
}

void RouteHeader::sign(const Signature& signature) {
  forget_prepared();
  if (!ipv6_) {
    signature_ = signature;
    return;
  }
  uint8_t* const ip = template_.data() + l3_offset_;
  const uint32_t first = load_be32(ip);
  if ((first & 0xFFFFF) == 0) store_be32(ip, first | signature.flow_label());
}

namespace {

const uint8_t* ethertype_of(const uint8_t* frame) {
  const uint8_t* const type = frame + 12;
  return load_be16(type) == kEtherVlan ? type + 4 : type;
}

}  // namespace

uint32_t dest_qp_of(const uint8_t* frame) {
  const uint8_t* const type = ethertype_of(frame);
  return Bth::decode(type + 2 + (load_be16(type) == kEtherIpv6 ? kIpv6Bytes : kIpv4Bytes) + kUdpBytes).dest_qp;
}

IpAddress dest_ip_of(const uint8_t* frame) { return ends_of(frame).dst_ip; }

FrameEnds ends_of(const uint8_t* frame) {
  const uint8_t* const type = ethertype_of(frame);
  FrameEnds ends;
  if (type != frame + 12) ends.vlan_id = load_be16(frame + 14) & 0xFFF;
  if (load_be16(type) == kEtherIpv4) {
    ends.src_ip = IpAddress::v4(load_be32(type + 2 + 12));
    ends.dst_ip = IpAddress::v4(load_be32(type + 2 + 16));
  } else {
    std::memcpy(ends.src_ip.bytes.data(), type + 2 + 8, ends.src_ip.bytes.size());
    std::memcpy(ends.dst_ip.bytes.data(), type + 2 + 24, ends.dst_ip.bytes.size());
  }
  return ends;
}

}  // namespace uroce
