// Checks the checksums of received packets by the sum that the card computes: the one's complement sum of all 16-bit
// words of the frame after its Ethernet header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mqnic {

enum class ChecksumVerdict : uint8_t { kUnknown, kGood, kBad };

struct ReceivedChecksums {
  ChecksumVerdict ipv4_header = ChecksumVerdict::kUnknown;
  ChecksumVerdict l4 = ChecksumVerdict::kUnknown;
};

/// `head` is the beginning of a frame of `frame_bytes` bytes, of which `head_bytes` are readable; `sum` is
/// Completion::rx_checksum. Padding after the IP packet is subtracted from the sum. The verdict is kUnknown for
/// fragments, other protocols, IPv6 extension headers, and when a header or the padding is not readable.
ReceivedChecksums check_received(const uint8_t* head, size_t head_bytes, size_t frame_bytes, uint16_t sum);

/// The folded one's complement sum of bytes as big-endian 16-bit words.
uint16_t ones_complement_sum(const uint8_t* bytes, size_t size, uint32_t start = 0);

}  // namespace mqnic
