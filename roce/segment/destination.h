// Where a frame wants to go, for whoever has to pass it on and is not its receiver.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "base/big_endian.h"
#include "uroce/address.h"

namespace uroce::segment {

struct Destination {
  MacAddress mac;
  uint32_t qpn = 0;  // 0: not for a queue pair
};

/// Reads what is there, and trusts nothing: DPDK applications send what they like.
inline Destination destination_of(std::span<const uint8_t> frame) {
  constexpr uint32_t kEthernet = 14, kVlan = 4, kIpv4 = 20, kIpv6 = 40, kUdp = 8, kBth = 12;
  constexpr uint16_t kRocePort = 4791;
  Destination destination;
  if (frame.size() < kEthernet) return destination;
  const uint8_t* p = frame.data();
  std::memcpy(destination.mac.bytes.data(), p, 6);
  size_t l3 = kEthernet;
  uint16_t ethertype = load_be16(p + 12);
  if (ethertype == 0x8100 && frame.size() >= kEthernet + kVlan) {
    ethertype = load_be16(p + 16);
    l3 += kVlan;
  }
  size_t udp = 0;
  if (ethertype == 0x0800 && frame.size() >= l3 + kIpv4 && p[l3] == 0x45 && p[l3 + 9] == 17) udp = l3 + kIpv4;
  if (ethertype == 0x86dd && frame.size() >= l3 + kIpv6 && p[l3 + 6] == 17) udp = l3 + kIpv6;
  if (udp == 0 || frame.size() < udp + kUdp + kBth || load_be16(p + udp + 2) != kRocePort) return destination;
  destination.qpn = load_be32(p + udp + kUdp + 4) & 0xFFFFFF;
  return destination;
}

}  // namespace uroce::segment
