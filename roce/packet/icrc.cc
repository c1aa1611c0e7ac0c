#include "packet/icrc.h"

#include <cstring>

#include "packet/crc32.h"
#include "packet/network_headers.h"

namespace uroce {
uint32_t icrc_to_bth_head(const uint8_t* l3, bool ipv6) {
  constexpr uint32_t kOnes = 8;  // where InfiniBand has its local route header
  uint8_t masked[kOnes + kIpv6Bytes + kUdpBytes + Bth::kHeadBytes];
  std::memset(masked, 0xff, kOnes);
  uint8_t* const ip = masked + kOnes;
  const uint32_t ip_bytes = ipv6 ? kIpv6Bytes : kIpv4Bytes;
  const uint32_t bytes = ip_bytes + kUdpBytes + Bth::kHeadBytes;
  std::memcpy(ip, l3, bytes);
  if (ipv6) {
    ip[0] |= 0x0f;                 // traffic class and flow label ...
    ip[1] = ip[2] = ip[3] = 0xff;  // ... to their ends
    ip[7] = 0xff;                  // hop limit
  } else {
    ip[1] = ip[8] = ip[10] = ip[11] = 0xff;  // TOS, TTL, checksum
  }
  ip[ip_bytes + 6] = ip[ip_bytes + 7] = 0xff;  // UDP checksum
  ip[ip_bytes + kUdpBytes + 4] = 0xff;         // resv8a of the BTH
  return crc32_update(kCrcInit, masked, kOnes + bytes);
}

namespace {

/// `state` after everything before `from`, which lies in the copy of the headers if there is one.
bool ends_with_crc(const PacketView& packet, uint32_t state, const uint8_t* from) {
  const uint8_t* end = packet.l3 + packet.l3_bytes - kIcrcBytes;
  if (packet.apart()) {
    state = crc32_update(state, from, static_cast<size_t>(packet.ext + packet.info->header_bytes - from));
    from = packet.payload;
    end = from + packet.payload_bytes + packet.bth.pad_count;
  }
  state = crc32_update(state, from, static_cast<size_t>(end - from));
  uint32_t stored;
  std::memcpy(&stored, end, sizeof stored);
  return stored == crc32_final(state);
}

}  // namespace

bool icrc_matches(const PacketView& packet) {
  return ends_with_crc(packet, icrc_begin(packet.l3, packet.ipv6), packet.ext);
}

bool icrc_matches(const PacketView& packet, uint32_t to_bth_head) {
  return ends_with_crc(packet, to_bth_head, packet.bth_bytes + Bth::kHeadBytes);
}

}  // namespace uroce
