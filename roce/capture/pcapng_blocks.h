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
  uint32_t original_bytes = 0;    // of a frame that was cut; 0: it was not
  std::string_view comment = {};  // "": none
};

/// Statistics of an interface's frames.
struct PcapngStatistics {
  uint32_t interface = 0;
  Instant time{0};  // since 1970
  uint64_t received = 0;
  uint64_t dropped = 0;  // by the capture
};

void append_section(std::vector<uint8_t>& bytes);
/// `description` "": none.
void append_interface(std::vector<uint8_t>& bytes, std::string_view name, std::string_view description = "");
void append_packet(std::vector<uint8_t>& bytes, const PcapngPacket& packet);
/// How many bytes `append_packet` will append.
size_t packet_block_bytes(size_t frame_bytes, size_t comment_bytes = 0);
/// Goes behind the last packet of its interface.
void append_statistics(std::vector<uint8_t>& bytes, const PcapngStatistics& statistics);

}  // namespace uroce::capture
