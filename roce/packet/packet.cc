#include "packet/packet.h"

#include <new>

#include "packet/network_headers.h"

namespace uroce {
namespace {

constexpr uint32_t kFragmentHeaderBytes = 8;

constexpr uint8_t kProtocolFragment = 44;

bool ipv4_checksum_holds(const uint8_t* ip) {
  // The sum over a correct header is 0xffff in any byte order, so no swap is needed.
  uint64_t a;
  uint64_t b;
  uint32_t c;
  std::memcpy(&a, ip, 8);
  std::memcpy(&b, ip + 8, 8);
  std::memcpy(&c, ip + 16, 4);
  uint64_t sum = (a & 0xFFFFFFFF) + (a >> 32) + (b & 0xFFFFFFFF) + (b >> 32) + c;
  sum = (sum & 0xFFFF) + ((sum >> 16) & 0xFFFF) + (sum >> 32);
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  return sum == 0xFFFF;
}

/// The same as IpAddress::v4 of the four bytes at `p`, but in two stores.
void set_v4(IpAddress& ip, const uint8_t* p) {
  uint32_t address;
  std::memcpy(&address, p, 4);
  const uint64_t halves[2] = {0, 0xFFFF0000u | (uint64_t{address} << 32)};
  std::memcpy(ip.bytes.data(), halves, 16);
}

bool is_roce_port(const uint8_t* udp) { return load_be16(udp + 2) == kRoceUdpPort; }

/// What an IP layer leaves for UDP: the bytes that the IP length field says there are.
struct Datagram {
  const uint8_t* udp = nullptr;
  uint32_t bytes = 0;
};

ParseResult parse_ipv4(const uint8_t* ip, uint32_t left, PacketView& out, Datagram& datagram) {
  if (left < kIpv4Bytes) return ParseResult::kTruncated;
  if ((ip[0] >> 4) != 4) return ParseResult::kBadIpHeader;
  if (ip[9] != kProtocolUdp) return ParseResult::kNotRoce;
  if ((load_be16(ip + 6) & 0x3fff) != 0) return ParseResult::kFragmented;
  const uint32_t header_bytes = (ip[0] & 0x0fu) * 4;
  if (header_bytes < kIpv4Bytes) return ParseResult::kBadIpHeader;
  if (left < header_bytes + kUdpBytes) return ParseResult::kTruncated;
  if (!is_roce_port(ip + header_bytes)) return ParseResult::kNotRoce;
  if (header_bytes != kIpv4Bytes || !ipv4_checksum_holds(ip)) return ParseResult::kBadIpHeader;
  const uint32_t total_bytes = load_be16(ip + 2);
  if (total_bytes > left || total_bytes < kIpv4Bytes + kUdpBytes) return ParseResult::kTruncated;

  out.ipv6 = false;
  out.flow_id = load_be16(ip + 4);
  out.traffic_class = ip[1];
  out.hop_limit = ip[8];
  set_v4(out.src_ip, ip + 12);
  set_v4(out.dst_ip, ip + 16);
  out.l3_bytes = total_bytes;
  datagram = {ip + kIpv4Bytes, total_bytes - kIpv4Bytes};
  return ParseResult::kOk;
}

ParseResult parse_ipv6(const uint8_t* ip, uint32_t left, PacketView& out, Datagram& datagram) {
  if (left < kIpv6Bytes) return ParseResult::kTruncated;
  if ((ip[0] >> 4) != 6) return ParseResult::kBadIpHeader;
  if (ip[6] == kProtocolFragment) {
    if (left < kIpv6Bytes + kFragmentHeaderBytes) return ParseResult::kTruncated;
    return ip[kIpv6Bytes] == kProtocolUdp ? ParseResult::kFragmented : ParseResult::kNotRoce;
  }
  if (ip[6] != kProtocolUdp) return ParseResult::kNotRoce;
  if (left < kIpv6Bytes + kUdpBytes) return ParseResult::kTruncated;
  if (!is_roce_port(ip + kIpv6Bytes)) return ParseResult::kNotRoce;
  const uint32_t datagram_bytes = load_be16(ip + 4);
  if (datagram_bytes > left - kIpv6Bytes || datagram_bytes < kUdpBytes) return ParseResult::kTruncated;

  out.ipv6 = true;
  out.flow_id = load_be32(ip) & 0xFFFFF;
  out.traffic_class = static_cast<uint8_t>(load_be16(ip) >> 4);
  out.hop_limit = ip[7];
  std::memcpy(out.src_ip.bytes.data(), ip + 8, 16);
  std::memcpy(out.dst_ip.bytes.data(), ip + 24, 16);
  out.l3_bytes = kIpv6Bytes + datagram_bytes;
  datagram = {ip + kIpv6Bytes, datagram_bytes};
  return ParseResult::kOk;
}

ParseResult parse_transport(const uint8_t* bth, uint32_t bytes, PacketView& out) {
  if (bytes < Bth::kBytes + kIcrcBytes) return ParseResult::kTruncated;
  const OpcodeInfo& info = opcode_info(bth[0]);
  if (info.operation == Operation::kReserved) return ParseResult::kUnknownOpcode;
  new (&out.bth) Bth(Bth::decode(bth));  // in place: copying single bytes just written would stall
  if (out.bth.tver != 0) return ParseResult::kBadTver;
  const uint32_t fixed_bytes = Bth::kBytes + info.header_bytes + kIcrcBytes;
  if (bytes < fixed_bytes) return ParseResult::kTruncated;
  const uint32_t rest = bytes - fixed_bytes;
  if (out.bth.pad_count > rest) return ParseResult::kBadPad;
  if (rest != 0 && !info.has(kHasPayload)) return ParseResult::kUnexpectedPayload;
  out.info = &info;
  out.bth_bytes = bth;
  out.ext = bth + Bth::kBytes;
  out.payload_bytes = rest - out.bth.pad_count;
  return ParseResult::kOk;
}

}  // namespace

ParseResult parse_frame(std::span<const uint8_t> frame, PacketView& out, const uint8_t* headers) {
  if (frame.size() < kEthernetBytes) return ParseResult::kTruncated;
  const uint8_t* p = headers != nullptr ? headers : frame.data();
  uint32_t l2_bytes = kEthernetBytes;
  uint16_t ethertype = load_be16(p + 12);
  uint16_t vlan_id = 0;
  if (ethertype == kEtherVlan) {
    l2_bytes += kVlanBytes;
    if (frame.size() < l2_bytes) return ParseResult::kTruncated;
    vlan_id = load_be16(p + 14) & 0x0fff;
    ethertype = load_be16(p + 16);
  }
  const auto left = static_cast<uint32_t>(frame.size() - l2_bytes);
  const uint8_t* ip = p + l2_bytes;
  Datagram datagram;
  ParseResult result = ParseResult::kNotRoce;
  if (ethertype == kEtherIpv4) {
    result = parse_ipv4(ip, left, out, datagram);
  } else if (ethertype == kEtherIpv6) {
    result = parse_ipv6(ip, left, out, datagram);
  }
  if (result != ParseResult::kOk) return result;
  if (load_be16(datagram.udp + 4) != datagram.bytes) return ParseResult::kLengthMismatch;
  out.l2 = p;
  out.l3 = ip;
  out.vlan_id = vlan_id;
  out.udp_src_port = load_be16(datagram.udp);
  result = parse_transport(datagram.udp + kUdpBytes, datagram.bytes - kUdpBytes, out);
  if (result != ParseResult::kOk) return result;
  out.payload = frame.data() + (out.ext + out.info->header_bytes - p);
  return ParseResult::kOk;
}

const char* parse_result_name(ParseResult result) {
  switch (result) {
    case ParseResult::kOk:
      return "ok";
    case ParseResult::kNotRoce:
      return "not RoCE";
    case ParseResult::kTruncated:
      return "truncated";
    case ParseResult::kBadIpHeader:
      return "bad IP header";
    case ParseResult::kFragmented:
      return "fragmented";
    case ParseResult::kLengthMismatch:
      return "IP and UDP lengths disagree";
    case ParseResult::kUnknownOpcode:
      return "unknown opcode";
    case ParseResult::kBadTver:
      return "bad transport version";
    case ParseResult::kBadPad:
      return "bad pad count";
    case ParseResult::kUnexpectedPayload:
      return "payload after an opcode that has none";
  }
  return "?";
}

}  // namespace uroce
