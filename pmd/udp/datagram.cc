#include "pmd/udp/datagram.h"

#include <cstring>
#include <optional>

#include "base/big_endian.h"
#include "packet/crc32.h"
#include "packet/headers.h"
#include "packet/icrc.h"
#include "packet/internet_checksum.h"
#include "packet/network_headers.h"
#include "pmd/udp/icrc_change.h"

namespace uroce::udp {
namespace {

constexpr uint32_t kIdentificationAt = 4;  // in the IPv4 header
constexpr uint16_t kDontFragment = 0x4000;
constexpr uint32_t kRoceBytesLeast = Bth::kBytes + kIcrcBytes;

IpAddress v4_at(const uint8_t* p) { return IpAddress::v4(load_be32(p)); }

IpAddress v6_at(const uint8_t* p) {
  IpAddress ip;
  std::memcpy(ip.bytes.data(), p, ip.bytes.size());
  return ip;
}

/// Returns the bytes that the IP layer says there are behind its header; 0: not such a packet.
uint32_t read_ipv4(const uint8_t* ip, size_t left, OutFrame& out) {
  if (left < kIpv4Bytes || ip[0] != 0x45 || ip[9] != kProtocolUdp) return 0;
  if ((load_be16(ip + 6) & 0x3FFF) != 0) return 0;  // a fragment
  const uint32_t total = load_be16(ip + 2);
  if (total > left || total < kIpv4Bytes) return 0;
  out.traffic_class = ip[1];
  out.hop_limit = ip[8];
  out.src = v4_at(ip + 12);
  out.dst = v4_at(ip + 16);
  return total - kIpv4Bytes;
}

uint32_t read_ipv6(const uint8_t* ip, size_t left, OutFrame& out) {
  if (left < kIpv6Bytes || (ip[0] >> 4) != 6 || ip[6] != kProtocolUdp) return 0;
  const uint32_t bytes = load_be16(ip + 4);
  if (bytes > left - kIpv6Bytes) return 0;
  out.traffic_class = static_cast<uint8_t>(load_be16(ip) >> 4);
  out.hop_limit = ip[7];
  out.src = v6_at(ip + 8);
  out.dst = v6_at(ip + 24);
  return bytes;
}

void set_ipv4_checksum(uint8_t* ip) {
  store_be16(ip + 10, 0);
  store_be16(ip + 10, static_cast<uint16_t>(~fold16(sum16({ip, kIpv4Bytes}))));
}

void write_ipv4(uint8_t* ip, const InDatagram& datagram) {
  store_be32(ip,
             0x45000000u | uint32_t{datagram.traffic_class} << 16 | (kIpv4Bytes + kUdpBytes + datagram.payload_bytes));
  store_be32(ip + 4, kDontFragment);
  store_be32(ip + 8, uint32_t{datagram.hop_limit} << 24 | uint32_t{kProtocolUdp} << 16);
  store_be32(ip + 12, datagram.src.v4_host_order());
  store_be32(ip + 16, datagram.dst.v4_host_order());
}

void write_ipv6(uint8_t* ip, const InDatagram& datagram) {
  store_be32(ip, 0x60000000u | uint32_t{datagram.traffic_class} << 20);
  store_be16(ip + 4, static_cast<uint16_t>(kUdpBytes + datagram.payload_bytes));
  ip[6] = kProtocolUdp;
  ip[7] = datagram.hop_limit;
  std::memcpy(ip + 8, datagram.src.bytes.data(), 16);
  std::memcpy(ip + 24, datagram.dst.bytes.data(), 16);
}

/// Copies the payload behind the headers, and returns by what its iCRC differs from the right one.
uint32_t copy_payload(uint8_t* l3, uint8_t* out, const InDatagram& datagram, bool ipv6) {
  if (datagram.payload_bytes < kRoceBytesLeast) {
    if (datagram.payload_bytes != 0) std::memcpy(out, datagram.payload, datagram.payload_bytes);
    return 1;
  }
  std::memcpy(out, datagram.payload, Bth::kBytes);  // read with the headers
  const uint32_t rest = datagram.payload_bytes - kRoceBytesLeast;
  const uint32_t state = crc32_copy(icrc_begin(l3, ipv6), out + Bth::kBytes, datagram.payload + Bth::kBytes, rest);
  uint8_t right[kIcrcBytes];
  icrc_store(right, state);
  const uint8_t* const icrc = datagram.payload + Bth::kBytes + rest;
  std::memcpy(out + Bth::kBytes + rest, icrc, kIcrcBytes);
  uint32_t a;
  uint32_t b;
  std::memcpy(&a, right, sizeof a);
  std::memcpy(&b, icrc, sizeof b);
  return a ^ b;
}

}  // namespace

MacAddress mac_of(const IpAddress& ip) {
  MacAddress mac{{0x5e, 0x04, 0, 0, 0, 0}};
  if (ip.is_v4()) {
    std::memcpy(mac.bytes.data() + 2, ip.bytes.data() + 12, 4);
    return mac;
  }
  mac.bytes[1] = 0x06;
  store_be32(mac.bytes.data() + 2, crc32_final(crc32_update(kCrcInit, ip.bytes.data(), ip.bytes.size())));
  return mac;
}

bool read_frame(std::span<uint8_t> frame, OutFrame& out) {
  if (frame.size() < kEthernetBytes) return false;
  uint8_t* const l3 = frame.data() + kEthernetBytes;
  const size_t left = frame.size() - kEthernetBytes;
  const uint16_t ethertype = load_be16(frame.data() + 12);
  out.l3 = l3;
  out.ipv6 = ethertype == kEtherIpv6;
  const uint32_t bytes = ethertype == kEtherIpv4   ? read_ipv4(l3, left, out)
                         : ethertype == kEtherIpv6 ? read_ipv6(l3, left, out)
                                                   : 0;
  if (bytes < kUdpBytes + kRoceBytesLeast) return false;
  uint8_t* const udp = l3 + (out.ipv6 ? kIpv6Bytes : kIpv4Bytes);
  if (load_be16(udp + 2) != kRoceUdpPort || load_be16(udp + 4) != bytes) return false;
  out.src_port = load_be16(udp);
  out.payload = udp + kUdpBytes;
  out.payload_bytes = bytes - kUdpBytes;
  return !out.dst.is_multicast();
}

void set_sent_fields(OutFrame& frame, uint16_t identification, uint16_t src_port) {
  uint8_t* const udp = frame.payload - kUdpBytes;
  // Everything from the identification to the source port; of what lies between, nothing differs.
  constexpr uint32_t kPortAt = kIpv4Bytes - kIdentificationAt;
  uint8_t difference[kPortAt + 2] = {};
  const uint16_t of_port = load_be16(udp) ^ src_port;
  store_be16(difference + kPortAt, of_port);
  store_be16(udp, src_port);
  frame.src_port = src_port;
  uint32_t of_identification = 0;  // and of the flags behind it
  if (!frame.ipv6) {
    uint8_t* const at = frame.l3 + kIdentificationAt;
    of_identification = load_be32(at) ^ (uint32_t{identification} << 16 | kDontFragment);
    store_be32(difference, of_identification);
    store_be32(at, uint32_t{identification} << 16 | kDontFragment);
    if (of_identification != 0) set_ipv4_checksum(frame.l3);
  }
  if (of_port == 0 && of_identification == 0) return;
  const uint32_t following = kUdpBytes - 2 + frame.payload_bytes - kIcrcBytes;
  uint8_t* const icrc = frame.payload + frame.payload_bytes - kIcrcBytes;
  uint32_t value;
  std::memcpy(&value, icrc, sizeof value);
  value ^= icrc_change(difference, following);
  std::memcpy(icrc, &value, sizeof value);
}

uint32_t frame_header_bytes(const IpAddress& ip) {
  return kEthernetBytes + (ip.is_v4() ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes;
}

Identified write_frame(uint8_t* out, const MacAddress& own, const InDatagram& datagram) {
  const bool ipv6 = !datagram.dst.is_v4();
  const MacAddress src = mac_of(datagram.src);
  std::memcpy(out, own.bytes.data(), 6);
  std::memcpy(out + 6, src.bytes.data(), 6);
  store_be16(out + 12, ipv6 ? kEtherIpv6 : kEtherIpv4);
  uint8_t* const l3 = out + kEthernetBytes;
  ipv6 ? write_ipv6(l3, datagram) : write_ipv4(l3, datagram);
  uint8_t* const udp = l3 + (ipv6 ? kIpv6Bytes : kIpv4Bytes);
  store_be16(udp, datagram.src_port);
  store_be16(udp + 2, kRoceUdpPort);
  store_be16(udp + 4, static_cast<uint16_t>(kUdpBytes + datagram.payload_bytes));
  store_be16(udp + 6, 0);  // the kernel has checked it
  const uint32_t wrong = copy_payload(l3, udp + kUdpBytes, datagram, ipv6);
  Identified how = ipv6 ? Identified::kExact : Identified::kCounted;
  if (wrong != 0) {
    how = Identified::kNone;
    const uint32_t following = kIpv4Bytes - kIdentificationAt - 2 + kUdpBytes + datagram.payload_bytes - kIcrcBytes;
    const bool whole = !ipv6 && datagram.payload_bytes >= kRoceBytesLeast;
    if (const auto found = whole ? find_change(wrong, following) : std::nullopt) {
      store_be16(l3 + kIdentificationAt, *found);
      how = *found <= kCountedMost ? Identified::kCounted : Identified::kForeign;
    }
  }
  if (!ipv6) set_ipv4_checksum(l3);
  return how;
}

}  // namespace uroce::udp
