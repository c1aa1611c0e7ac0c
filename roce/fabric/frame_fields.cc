#include "fabric/frame_fields.h"

#include <cstring>

#include "base/big_endian.h"
#include "packet/opcode.h"

namespace uroce::fabric {
namespace {

constexpr uint16_t kEtherServiceVlan = 0x88a8;
constexpr uint8_t kProtocolTcp = 6;
constexpr unsigned kMaxTags = 2;

void inspect_ipv4(const uint8_t* ip, uint32_t left, FrameFields& out) {
  const uint32_t header_bytes = (ip[0] & 0x0fu) * 4;
  if (left < kIpv4Bytes || (ip[0] >> 4) != 4 || header_bytes < kIpv4Bytes) return;
  out.ip_version = 4;
  out.traffic_class = ip[1];
  out.protocol = ip[9];
  const bool fragment = (load_be16(ip + 6) & 0x3fff) != 0;
  if (!fragment && header_bytes <= left) out.l4_offset = static_cast<uint16_t>(out.l3_offset + header_bytes);
}

void inspect_ipv6(const uint8_t* ip, uint32_t left, FrameFields& out) {
  if (left < kIpv6Bytes || (ip[0] >> 4) != 6) return;
  out.ip_version = 6;
  out.traffic_class = static_cast<uint8_t>(load_be16(ip) >> 4);
  out.protocol = ip[6];  // an extension header counts as a protocol without ports
  out.l4_offset = static_cast<uint16_t>(out.l3_offset + kIpv6Bytes);
}

uint64_t mix(uint64_t h, uint64_t word) {
  h = (h ^ word) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 32);
}

uint64_t load64(const uint8_t* p) {
  uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

}  // namespace

FrameFields inspect(std::span<const uint8_t> frame) {
  FrameFields out;
  const uint8_t* p = frame.data();
  const auto bytes = static_cast<uint32_t>(frame.size());
  uint32_t at = kEthernetBytes;
  out.ethertype = load_be16(p + 12);
  for (unsigned tags = 0; tags < kMaxTags && (out.ethertype == kEtherVlan || out.ethertype == kEtherServiceVlan);
       tags++) {
    if (bytes < at + kVlanBytes) return out;
    if (!out.tagged) out.pcp = p[at] >> 5;
    out.tagged = true;
    out.ethertype = load_be16(p + at + 2);
    at += kVlanBytes;
  }
  out.l3_offset = static_cast<uint16_t>(at);
  if (bytes == at) return out;
  if (out.ethertype == kEtherIpv4) inspect_ipv4(p + at, bytes - at, out);
  if (out.ethertype == kEtherIpv6) inspect_ipv6(p + at, bytes - at, out);
  return out;
}

void set_traffic_class(std::span<uint8_t> frame, const FrameFields& fields, uint8_t traffic_class) {
  uint8_t* ip = frame.data() + fields.l3_offset;
  if (fields.ip_version == 6) {
    ip[0] = static_cast<uint8_t>((ip[0] & 0xF0) | traffic_class >> 4);
    ip[1] = static_cast<uint8_t>((ip[1] & 0x0F) | traffic_class << 4);
  }
  if (fields.ip_version != 4) return;
  const uint16_t old_word = load_be16(ip);
  ip[1] = traffic_class;
  // RFC 1624: HC' = ~(~HC + ~m + m')
  uint32_t sum = static_cast<uint16_t>(~load_be16(ip + 10));
  sum += static_cast<uint16_t>(~old_word);
  sum += load_be16(ip);
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  store_be16(ip + 10, static_cast<uint16_t>(~sum));
}

bool mark_congestion(std::span<uint8_t> frame, const FrameFields& fields) {
  if (fields.ip_version == 0 || fields.ecn() == Ecn::kNotCapable) return false;
  set_traffic_class(frame, fields, fields.traffic_class | 3);
  return true;
}

uint64_t flow_hash(std::span<const uint8_t> frame, const FrameFields& fields, uint64_t seed) {
  const uint8_t* p = frame.data();
  uint64_t h = seed;
  if (fields.ip_version == 0) {
    h = mix(h, load64(p));
    return mix(h, load_be32(p + 8));
  }
  const uint8_t* ip = p + fields.l3_offset;
  if (fields.ip_version == 4) {
    h = mix(h, load64(ip + 12));
  } else {
    for (uint32_t i = 8; i < kIpv6Bytes; i += 8) h = mix(h, load64(ip + i));
  }
  const bool ports = (fields.protocol == kProtocolTcp || fields.protocol == kProtocolUdp) && fields.l4_offset != 0 &&
                     frame.size() >= fields.l4_offset + 4u;
  h = mix(h, (uint64_t{fields.protocol} << 32) | (ports ? load_be32(p + fields.l4_offset) : 0));
  return mix(h, 0);
}

std::optional<RoceFields> roce_fields(std::span<const uint8_t> frame, const FrameFields& fields) {
  if (fields.protocol != kProtocolUdp || fields.l4_offset == 0) return std::nullopt;
  if (frame.size() < fields.l4_offset + kUdpBytes + Bth::kBytes) return std::nullopt;
  const uint8_t* udp = frame.data() + fields.l4_offset;
  if (load_be16(udp + 2) != kRoceUdpPort) return std::nullopt;
  const uint8_t* p = udp + kUdpBytes;
  const Bth bth = Bth::decode(p);
  RoceFields out{bth.opcode, 0, bth.dest_qp, bth.psn};
  if (opcode_info(bth.opcode).has(kHasAeth)) {
    if (frame.size() < fields.l4_offset + kUdpBytes + Bth::kBytes + Aeth::kBytes) return std::nullopt;
    out.syndrome = p[Bth::kBytes];
  }
  return out;
}

}  // namespace uroce::fabric
