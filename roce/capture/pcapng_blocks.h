// Blocks of a pcapng file, appended to bytes in memory: Ethernet frames with nanoseconds, in this machine's byte order.
// A file consists of a section, then its interfaces, then packets. The caller saves the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "uroce/time.h"

namespace uroce::capture {

struct PcapngPacket {
  uint32_t interface = 0;  // in the order of `append_interface`, from 0
  Instant time{0};         // since 1970
  bool inbound = false;    // else outbound
  std::span<const uint8_t> frame;
};

void append_section(std::vector<uint8_t>& bytes);
void append_interface(std::vector<uint8_t>& bytes, std::string_view name);
void append_packet(std::vector<uint8_t>& bytes, const PcapngPacket& packet);
/// How many bytes `append_packet` will append.
size_t packet_block_bytes(size_t frame_bytes);

}  // namespace uroce::capture
