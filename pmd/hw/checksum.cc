#include "pmd/hw/checksum.h"

#include <algorithm>

namespace mqnic {

namespace {

constexpr size_t kEthernetBytes = 14, kVlanBytes = 4, kIpv4Bytes = 20, kIpv6Bytes = 40, kUdpBytes = 8, kTcpBytes = 20;
constexpr uint8_t kTcp = 6, kUdp = 17;

uint16_t be16(const uint8_t* at) { return static_cast<uint16_t>(at[0] << 8 | at[1]); }

uint16_t fold(uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

/// `sum` minus `part`.
uint32_t without(uint32_t sum, uint16_t part) { return sum + static_cast<uint16_t>(~part); }

struct Packet {
  size_t l4 = 0, l4_bytes = 0;
  uint8_t protocol = 0;
  const uint8_t* addresses = nullptr;
  size_t address_bytes = 0;
};

ChecksumVerdict check_l4(const uint8_t* head, size_t head_bytes, size_t frame_bytes, uint16_t frame_sum,
                         const Packet& packet) {
  const size_t l4_header = packet.protocol == kUdp ? kUdpBytes : kTcpBytes;
  const size_t end = packet.l4 + packet.l4_bytes;
  if (packet.protocol != kUdp && packet.protocol != kTcp) return ChecksumVerdict::kUnknown;
  if (packet.l4_bytes < l4_header || head_bytes < packet.l4 + l4_header || end > frame_bytes) {
    return ChecksumVerdict::kUnknown;
  }
  // This is UDP without a checksum.
  if (packet.protocol == kUdp && be16(head + packet.l4 + 6) == 0) return ChecksumVerdict::kUnknown;
  uint32_t sum = without(frame_sum, ones_complement_sum(head + kEthernetBytes, packet.l4 - kEthernetBytes));
  if (end < frame_bytes) {
    if (frame_bytes > head_bytes) return ChecksumVerdict::kUnknown;
    // Words that start at an odd byte count with their bytes exchanged.
    const uint16_t padding = ones_complement_sum(head + end, frame_bytes - end);
    const bool odd = (end - kEthernetBytes) % 2 != 0;
    sum = without(sum, odd ? static_cast<uint16_t>(padding << 8 | padding >> 8) : padding);
  }
  sum += ones_complement_sum(packet.addresses, packet.address_bytes) + packet.protocol +
         static_cast<uint32_t>(packet.l4_bytes);
  return fold(sum) == 0xffff ? ChecksumVerdict::kGood : ChecksumVerdict::kBad;
}

}  // namespace

uint16_t ones_complement_sum(const uint8_t* bytes, size_t size, uint32_t start) {
  // Adds words in the host's order of bytes, and exchanges the bytes of the sum (RFC 1071).
  uint64_t sum = 0;
  size_t i = 0;
  for (; i + 4 <= size; i += 4) {
    uint32_t word;
    std::memcpy(&word, bytes + i, sizeof(word));
    sum += word;
  }
  for (unsigned shift = 0; i != size; ++i, shift += 8) sum += uint64_t{bytes[i]} << shift;
  return fold(uint64_t{start} + __builtin_bswap16(fold(sum)));
}

ReceivedChecksums check_received(const uint8_t* head, size_t head_bytes, size_t frame_bytes, uint16_t frame_sum) {
  head_bytes = std::min(head_bytes, frame_bytes);
  ReceivedChecksums result;
  size_t l3 = kEthernetBytes;
  if (head_bytes < l3) return result;
  uint16_t type = be16(head + 12);
  for (int tags = 0; tags < 2 && (type == 0x8100 || type == 0x88a8) && head_bytes >= l3 + kVlanBytes; ++tags) {
    type = be16(head + l3 + 2);
    l3 += kVlanBytes;
  }
  Packet packet;
  if (type == 0x0800) {
    if (head_bytes < l3 + kIpv4Bytes) return result;
    const size_t header = static_cast<size_t>(head[l3] & 0x0f) * 4;
    if (head[l3] >> 4 != 4 || header < kIpv4Bytes || head_bytes < l3 + header) return result;
    const bool good = ones_complement_sum(head + l3, header) == 0xffff;
    result.ipv4_header = good ? ChecksumVerdict::kGood : ChecksumVerdict::kBad;
    const size_t total = be16(head + l3 + 2);
    const bool fragment = (be16(head + l3 + 6) & 0x3fff) != 0;
    if (!good || fragment || total < header) return result;
    packet = {l3 + header, total - header, head[l3 + 9], head + l3 + 12, 8};
  } else if (type == 0x86dd) {
    if (head_bytes < l3 + kIpv6Bytes || head[l3] >> 4 != 6) return result;
    packet = {l3 + kIpv6Bytes, be16(head + l3 + 4), head[l3 + 6], head + l3 + 8, 32};
  } else {
    return result;
  }
  result.l4 = check_l4(head, head_bytes, frame_bytes, frame_sum, packet);
  return result;
}

}  // namespace mqnic
