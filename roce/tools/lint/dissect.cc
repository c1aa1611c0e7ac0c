#include <algorithm>

#include "base/big_endian.h"
#include "lint/finding.h"
#include "lint/packet.h"
#include "packet/icrc.h"
#include "packet/network_headers.h"

namespace uroce::lint {
namespace {

constexpr uint8_t kIpv6Fragment = 44;

/// One frame on its way from the link layer to the BTH.
class Dissector {
 public:
  Dissector(const pcap::Frame& frame, const pcap::NetworkLayer& layer, Packet& out, std::vector<Issue>& issues)
      : ip_(layer.bytes.data()), left_(static_cast<uint32_t>(layer.bytes.size())), out_(out), issues_(issues) {
    // What was on the wire: the captured bytes may be fewer.
    on_wire_ = left_ + (frame.original_bytes - static_cast<uint32_t>(frame.bytes.size()));
    out_.view.l2 = frame.bytes.data();
    out_.view.l3 = ip_;
    out_.view.vlan_id = layer.vlan_id;
  }

  Dissection run(bool ipv6);

 private:
  Dissection wrong(Rule rule, std::string text) {
    issues_.push_back({rule, std::move(text)});
    return Dissection::kFaulty;
  }
  Dissection ipv4();
  Dissection ipv6();
  Dissection udp(uint32_t ip_header_bytes, uint32_t ip_bytes);
  Dissection transport(const uint8_t* bth, uint32_t bytes, uint32_t captured);
  Dissection other_port(uint32_t ip_header_bytes, uint32_t ip_bytes);
  void check_udp_checksum(uint32_t ip_header_bytes, uint32_t udp_bytes);
  /// UDP's destination port, when it was captured.
  bool to_roce(uint32_t ip_header_bytes) const {
    return left_ >= ip_header_bytes + kUdpBytes && load_be16(ip_ + ip_header_bytes + 2) == kRoceUdpPort;
  }

  const uint8_t* ip_;
  uint32_t left_;     // captured bytes from the IP header on
  uint32_t on_wire_;  // bytes from the IP header on that the wire had
  Packet& out_;
  std::vector<Issue>& issues_;
};

uint32_t sum_words(const uint8_t* p, uint32_t bytes) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i + 1 < bytes; i += 2) sum += load_be16(p + i);
  if (bytes % 2 != 0) sum += uint32_t{p[bytes - 1]} << 8;
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint32_t>(sum);
}

Dissection Dissector::run(bool ipv6_frame) { return ipv6_frame ? ipv6() : ipv4(); }

Dissection Dissector::ipv4() {
  if (left_ < kIpv4Bytes || ip_[0] >> 4 != 4 || ip_[9] != kProtocolUdp) return Dissection::kOther;
  const uint32_t header_bytes = (ip_[0] & 0x0fu) * 4;
  if (header_bytes < kIpv4Bytes) return Dissection::kOther;
  const uint32_t fragment = load_be16(ip_ + 6) & 0x3fff;
  if ((fragment & 0x1fff) != 0) return Dissection::kOther;  // a later fragment has no UDP header to go by
  out_.view.ipv6 = false;
  out_.view.traffic_class = ip_[1];
  out_.view.hop_limit = ip_[8];
  out_.view.flow_id = load_be16(ip_ + 4);
  out_.view.src_ip = IpAddress::v4(load_be32(ip_ + 12));
  out_.view.dst_ip = IpAddress::v4(load_be32(ip_ + 16));
  out_.has_addresses = true;
  const uint32_t ip_bytes = load_be16(ip_ + 2);
  if (!to_roce(header_bytes)) return other_port(header_bytes, ip_bytes);
  if (fragment != 0) return wrong(Rule::kIpFragment, "the first of several fragments; expected a whole datagram");
  if (header_bytes != kIpv4Bytes) {
    return wrong(Rule::kIpHeader, sentence("an IPv4 header of %u bytes; expected 20", header_bytes));
  }
  if (sum_words(ip_, kIpv4Bytes) != 0xffff) {
    return wrong(Rule::kIpHeader, sentence("IPv4 header checksum 0x%04x does not hold", load_be16(ip_ + 10)));
  }
  return udp(kIpv4Bytes, ip_bytes);
}

Dissection Dissector::ipv6() {
  if (left_ < kIpv6Bytes || ip_[0] >> 4 != 6) return Dissection::kOther;
  if (ip_[6] == kIpv6Fragment && left_ >= kIpv6Bytes + 8 && ip_[kIpv6Bytes] == kProtocolUdp &&
      to_roce(kIpv6Bytes + 8) && (load_be16(ip_ + kIpv6Bytes + 2) & 0xfff8) == 0) {
    return wrong(Rule::kIpFragment, "a datagram with a fragment header; expected UDP right after IPv6");
  }
  if (ip_[6] != kProtocolUdp) return Dissection::kOther;
  out_.view.ipv6 = true;
  out_.view.traffic_class = static_cast<uint8_t>(load_be16(ip_) >> 4);
  out_.view.hop_limit = ip_[7];
  out_.view.flow_id = load_be32(ip_) & 0xFFFFF;
  std::copy_n(ip_ + 8, 16, out_.view.src_ip.bytes.begin());
  std::copy_n(ip_ + 24, 16, out_.view.dst_ip.bytes.begin());
  out_.has_addresses = true;
  const uint32_t ip_bytes = kIpv6Bytes + load_be16(ip_ + 4);
  return to_roce(kIpv6Bytes) ? udp(kIpv6Bytes, ip_bytes) : other_port(kIpv6Bytes, ip_bytes);
}

/// A packet to another UDP port is RoCEv2 if its iCRC is right, because 32 bits do not match by chance.
Dissection Dissector::other_port(uint32_t ip_header_bytes, uint32_t ip_bytes) {
  const uint32_t least = ip_header_bytes + kUdpBytes + Bth::kBytes + kIcrcBytes;
  if (ip_bytes < least || ip_bytes > left_) return Dissection::kOther;
  if (ip_header_bytes != (out_.view.ipv6 ? kIpv6Bytes : kIpv4Bytes)) return Dissection::kOther;
  const uint8_t* udp = ip_ + ip_header_bytes;
  if (load_be16(udp + 4) != ip_bytes - ip_header_bytes) return Dissection::kOther;
  const uint8_t* bth = udp + kUdpBytes;
  if (opcode_info(bth[0]).operation == Operation::kReserved || (bth[1] & 0x0f) != 0) return Dissection::kOther;
  out_.view.l3_bytes = ip_bytes;
  out_.view.ext = bth + Bth::kBytes;
  if (!icrc_matches(out_.view)) return Dissection::kOther;
  return wrong(Rule::kUdpPort, sentence("%s to UDP port %u with a right iCRC; expected port 4791", opcode_name(bth[0]),
                                        load_be16(udp + 2)));
}

void Dissector::check_udp_checksum(uint32_t ip_header_bytes, uint32_t udp_bytes) {
  const uint8_t* udp = ip_ + ip_header_bytes;
  const uint16_t stored = load_be16(udp + 6);
  if (stored == 0 || left_ < ip_header_bytes + udp_bytes) return;
  const uint8_t* addresses = out_.view.ipv6 ? ip_ + 8 : ip_ + 12;
  uint32_t sum = sum_words(addresses, out_.view.ipv6 ? 32 : 8) + kProtocolUdp + udp_bytes + sum_words(udp, udp_bytes);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  if (sum == 0xffff) return;
  wrong(Rule::kUdpChecksum, sentence("UDP checksum 0x%04x does not hold; expected zero or the right one", stored));
}

Dissection Dissector::udp(uint32_t ip_header_bytes, uint32_t ip_bytes) {
  const uint8_t* udp = ip_ + ip_header_bytes;
  if (ip_bytes < ip_header_bytes + kUdpBytes || ip_bytes > on_wire_) {
    return wrong(Rule::kIpLength, sentence("the IP header says %u bytes, the frame has %u", ip_bytes, on_wire_));
  }
  const uint32_t udp_bytes = load_be16(udp + 4);
  if (udp_bytes != ip_bytes - ip_header_bytes) {
    return wrong(Rule::kUdpLength,
                 sentence("UDP length %u; expected %u, what IP leaves", udp_bytes, ip_bytes - ip_header_bytes));
  }
  check_udp_checksum(ip_header_bytes, udp_bytes);
  out_.view.l3_bytes = ip_bytes;
  out_.view.udp_src_port = load_be16(udp);
  out_.whole = ip_bytes <= left_;
  const uint32_t captured = std::min(left_, ip_bytes) - ip_header_bytes - kUdpBytes;
  return transport(udp + kUdpBytes, udp_bytes - kUdpBytes, captured);
}

Dissection Dissector::transport(const uint8_t* bth, uint32_t bytes, uint32_t captured) {
  if (bytes < Bth::kBytes + kIcrcBytes) {
    return wrong(Rule::kHeaderShort, sentence("%u bytes after UDP; expected at least a BTH and an iCRC, 16", bytes));
  }
  if (captured < Bth::kBytes) return Dissection::kCut;
  const OpcodeInfo& info = opcode_info(bth[0]);
  out_.view.bth = Bth::decode(bth);
  out_.view.bth_bytes = bth;
  out_.view.info = &info;
  out_.has_bth = true;
  out_.view.ext = bth + Bth::kBytes;
  // The packet was damaged on the way, so none of its fields means anything.
  if (out_.whole && !icrc_matches(out_.view)) {
    out_.icrc_wrong = true;
    return wrong(Rule::kIcrc, sentence("%s with an iCRC that is not that of its bytes", opcode_name(bth[0])));
  }
  if (info.operation == Operation::kReserved) {
    return wrong(Rule::kOpcodeReserved, sentence("opcode 0x%02x; expected one that is defined", bth[0]));
  }
  const char* name = opcode_name(bth[0]);
  if (out_.view.bth.tver != 0) {
    return wrong(Rule::kBthVersion, sentence("%s with transport version %u; expected 0", name, out_.view.bth.tver));
  }
  const uint32_t fixed_bytes = Bth::kBytes + info.header_bytes + kIcrcBytes;
  if (bytes < fixed_bytes) {
    return wrong(Rule::kHeaderShort, sentence("%s of %u bytes; expected at least %u", name, bytes, fixed_bytes));
  }
  if (captured < Bth::kBytes + info.header_bytes) return Dissection::kCut;
  const uint32_t rest = bytes - fixed_bytes;
  if (out_.view.bth.pad_count > rest) {
    return wrong(Rule::kPadCount, sentence("%s with %u bytes of padding after %u of headers, and only %u are left",
                                           name, out_.view.bth.pad_count, info.header_bytes, rest));
  }
  if (rest != 0 && !info.has(kHasPayload)) {
    return wrong(Rule::kPayloadUnexpected, sentence("%s with %u bytes of payload; expected none", name, rest));
  }
  out_.view.payload = out_.view.ext + info.header_bytes;
  out_.view.payload_bytes = rest - out_.view.bth.pad_count;
  return Dissection::kPacket;
}

}  // namespace

Dissection dissect(const pcap::Frame& frame, Packet& out, std::vector<Issue>& issues) {
  out = Packet{};
  out.frame = frame.number;
  out.time = frame.time;
  out.has_time = frame.has_time;
  out.direction = frame.direction;
  const auto layer = pcap::network_layer(frame);
  if (!layer || (layer->ethertype != kEtherIpv4 && layer->ethertype != kEtherIpv6)) return Dissection::kOther;
  return Dissector(frame, *layer, out, issues).run(layer->ethertype == kEtherIpv6);
}

}  // namespace uroce::lint
