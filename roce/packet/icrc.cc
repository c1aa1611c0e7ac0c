#include "packet/icrc.h"

#include <cstring>

#include "packet/crc32.h"

namespace uroce {
void icrc_store(uint8_t* where, uint32_t state) {
  const uint32_t value = crc32_final(state);
  std::memcpy(where, &value, sizeof value);  // least significant byte first, as the host has it
}

bool icrc_matches(const PacketView& packet) {
  uint32_t state = icrc_begin(packet.l3, packet.ipv6);
  const uint8_t* rest = packet.ext;
  const uint8_t* end = packet.l3 + packet.l3_bytes - kIcrcBytes;
  if (packet.apart()) {
    state = crc32_update(state, rest, packet.info->header_bytes);
    rest = packet.payload;
    end = rest + packet.payload_bytes + packet.bth.pad_count;
  }
  state = crc32_update(state, rest, static_cast<size_t>(end - rest));
  uint32_t stored;
  std::memcpy(&stored, end, sizeof stored);
  return stored == crc32_final(state);
}

}  // namespace uroce
