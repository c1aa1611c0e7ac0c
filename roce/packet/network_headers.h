// Numbers of the headers below the BTH: Ethernet, IP, UDP. Sizes in bytes, without options.
#pragma once

#include <cstdint>

namespace uroce {

inline constexpr uint16_t kEtherIpv4 = 0x0800;
inline constexpr uint16_t kEtherArp = 0x0806;
inline constexpr uint16_t kEtherVlan = 0x8100;
inline constexpr uint16_t kEtherIpv6 = 0x86dd;

inline constexpr uint8_t kProtocolUdp = 17;

inline constexpr uint32_t kEthernetBytes = 14;
inline constexpr uint32_t kVlanBytes = 4;
inline constexpr uint32_t kIpv4Bytes = 20;
inline constexpr uint32_t kIpv6Bytes = 40;
inline constexpr uint32_t kUdpBytes = 8;

}  // namespace uroce
