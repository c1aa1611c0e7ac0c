// Checksums of received packets, from the sum that the card made: the ones-complement sum of all 16-bit words of the
// frame behind its Ethernet header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mqnic {

enum class ChecksumVerdict : uint8_t { kUnknown, kGood, kBad };

struct ReceivedChecksums {
  ChecksumVerdict ipv4_header = ChecksumVerdict::kUnknown;
  ChecksumVerdict l4 = ChecksumVerdict::kUnknown;
};

/// `head` is the beginning of a frame of `frame_bytes` bytes, `head_bytes` of it readable; `sum` is Completion::
/// rx_checksum. Padding behind the IP packet is taken out of the sum. Unknown: fragments, other protocols, IPv6
/// extension headers, a header or padding that is not readable.
ReceivedChecksums check_received(const uint8_t* head, size_t head_bytes, size_t frame_bytes, uint16_t sum);

/// Ones-complement sum of bytes as big-endian 16-bit words, folded.
uint16_t ones_complement_sum(const uint8_t* bytes, size_t size, uint32_t start = 0);

}  // namespace mqnic
