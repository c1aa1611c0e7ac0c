// The invariant CRC of a RoCEv2 packet.
//
// It covers eight bytes of ones (where InfiniBand has its local route header), the IP and UDP headers with the fields
// that routers may change set to ones (IPv4: TOS, TTL, header checksum; IPv6: traffic class, flow label, hop limit;
// both: UDP checksum; BTH: resv8a), and everything after them up to the iCRC itself. It is stored least significant
// byte first.
#pragma once

#include <cstdint>
#include <cstring>

#include "packet/crc32.h"
#include "packet/packet.h"

namespace uroce {

/// CRC state after the masked IP, UDP and BTH headers. `l3` points at the IP header; UDP and BTH follow it directly
/// (20+8+12 bytes for IPv4, 40+8+12 for IPv6). Continue with crc32_update / crc32_copy over what follows the BTH.
uint32_t icrc_begin(const uint8_t* l3, bool ipv6);

/// The same without the tail of the BTH: the state after its head. Continue with crc32_update / crc32_copy over the
/// tail and what follows it. Slower; for headers that many packets have alike.
uint32_t icrc_to_bth_head(const uint8_t* l3, bool ipv6);

/// Writes the four iCRC bytes for the state after the last byte of payload and padding.
inline void icrc_store(uint8_t* where, uint32_t state) {
  const uint32_t value = crc32_final(state);
  std::memcpy(where, &value, sizeof value);  // least significant byte first, as the host has it
}

/// True when the iCRC at the end of the packet is the one computed over its bytes.
bool icrc_matches(const PacketView& packet);
/// The same for a packet whose state after the head of its BTH is known.
bool icrc_matches(const PacketView& packet, uint32_t to_bth_head);

}  // namespace uroce
