#include "wire/icrc.h"

#include <cstring>

#include "wire/crc32.h"

namespace uroce {
namespace {

constexpr uint32_t kIpv4Bytes = 20;
constexpr uint32_t kIpv6Bytes = 40;
constexpr uint32_t kUdpBytes = 8;
constexpr uint32_t kLrhBytes = 8;

}  // namespace

uint32_t icrc_begin(const uint8_t* l3, bool ipv6) {
  uint8_t masked[kLrhBytes + kIpv6Bytes + kUdpBytes + Bth::kBytes];
  std::memset(masked, 0xff, kLrhBytes);
  uint8_t* ip = masked + kLrhBytes;
  const uint32_t ip_bytes = ipv6 ? kIpv6Bytes : kIpv4Bytes;
  if (ipv6) {
    std::memcpy(ip, l3, kIpv6Bytes + kUdpBytes + Bth::kBytes);
    ip[0] |= 0x0f;  // traffic class and flow label: all but the version
    ip[1] = ip[2] = ip[3] = 0xff;
    ip[7] = 0xff;  // hop limit
  } else {
    std::memcpy(ip, l3, kIpv4Bytes + kUdpBytes + Bth::kBytes);
    ip[1] = 0xff;            // TOS
    ip[8] = 0xff;            // TTL
    ip[10] = ip[11] = 0xff;  // header checksum
  }
  uint8_t* udp = ip + ip_bytes;
  udp[6] = udp[7] = 0xff;     // UDP checksum
  udp[kUdpBytes + 4] = 0xff;  // resv8a
  return crc32_update(kCrcInit, masked, kLrhBytes + ip_bytes + kUdpBytes + Bth::kBytes);
}

void icrc_store(uint8_t* where, uint32_t state) {
  const uint32_t value = crc32_final(state);
  std::memcpy(where, &value, sizeof value);  // least significant byte first, as the host has it
}

bool icrc_matches(const PacketView& packet) {
  const uint8_t* end = packet.l3 + packet.l3_bytes - kIcrcBytes;
  uint32_t state = icrc_begin(packet.l3, packet.ipv6);
  state = crc32_update(state, packet.ext, static_cast<size_t>(end - packet.ext));
  uint32_t stored;
  std::memcpy(&stored, end, sizeof stored);
  return stored == crc32_final(state);
}

}  // namespace uroce
