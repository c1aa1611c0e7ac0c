// Where a frame is to go, for members that forward frames without being their receiver.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/big_endian.h"
#include "packet/headers.h"
#include "packet/management_datagram.h"
#include "packet/network_headers.h"
#include "uroce/address.h"

namespace uroce::segment {

struct FrameAddress {
  MacAddress mac;
  uint32_t qpn = 0;  // 0: not for a queue pair
  /// When `qpn` is kManagementQpn: the service that is asked for; nothing: the datagram does not name a receiver.
  std::optional<uint64_t> service_id;
  bool management = false;  // a management datagram
};

/// `datagram`: from the DETH on. A message that names a connection is for the member that has the connection's number.
inline void take_management(std::span<const uint8_t> datagram, FrameAddress& destination) {
  if (datagram.size() < Deth::kBytes) return;
  const ManagementAddress address = management_address(datagram.subspan(Deth::kBytes));
  if (address.kind == ManagementAddress::Kind::kService) destination.service_id = address.service_id;
  if (address.kind == ManagementAddress::Kind::kId)
    destination.qpn = number_of_communication_id(address.communication_id);
}

/// Reads what is there, and trusts nothing: DPDK applications send what they like.
inline FrameAddress address_of_frame(std::span<const uint8_t> frame) {
  FrameAddress destination;
  if (frame.size() < kEthernetBytes) return destination;
  const uint8_t* p = frame.data();
  std::memcpy(destination.mac.bytes.data(), p, 6);
  size_t l3 = kEthernetBytes;
  uint16_t ethertype = load_be16(p + 12);
  if (ethertype == kEtherVlan && frame.size() >= kEthernetBytes + kVlanBytes) {
    ethertype = load_be16(p + 16);
    l3 += kVlanBytes;
  }
  size_t udp = 0;
  if (ethertype == kEtherIpv4 && frame.size() >= l3 + kIpv4Bytes && p[l3] == 0x45 && p[l3 + 9] == kProtocolUdp)
    udp = l3 + kIpv4Bytes;
  if (ethertype == kEtherIpv6 && frame.size() >= l3 + kIpv6Bytes && p[l3 + 6] == kProtocolUdp) udp = l3 + kIpv6Bytes;
  if (udp == 0 || frame.size() < udp + kUdpBytes + Bth::kBytes || load_be16(p + udp + 2) != kRoceUdpPort)
    return destination;
  destination.qpn = load_be32(p + udp + kUdpBytes + 4) & 0xFFFFFF;
  destination.management = destination.qpn == kManagementQpn;
  if (destination.management) [[unlikely]]
    take_management(frame.subspan(udp + kUdpBytes + Bth::kBytes), destination);
  return destination;
}

}  // namespace uroce::segment
