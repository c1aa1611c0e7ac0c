// Checks the checksums of received packets by the sum that the card computes: the one's complement sum of all 16-bit
// words of the frame after its Ethernet header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

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

/// The verdicts on a frame of the most usual kind: UDP or TCP over IPv4, without tags, options, fragments or padding.
/// False for every other frame, which is for `check_received`. Reads each word of the headers of a frame that it takes
/// only once.
inline bool check_usual(const uint8_t* head, size_t head_bytes, size_t frame_bytes, uint16_t sum,
                        ReceivedChecksums& result) {
  // Ethernet's type, version and header length, the flags of fragments: as they lie in memory, on a little-endian host.
  constexpr uint32_t kTypeAndVersion = 0x00450008, kTypeAndVersionMask = 0x00ffffff;
  constexpr uint32_t kFragmentMask = 0xff3f0000;
  constexpr size_t kIp = 14, kL4 = 34, kUdpBytes = 8, kTcpBytes = 20, kUdpSum = kL4 + 6;
  constexpr uint8_t kTcp = 6, kUdp = 17;
  if (head_bytes < kL4 + kUdpBytes) return false;
  uint32_t type, ip[5];
  std::memcpy(&type, head + kIp - 2, sizeof(type));
  std::memcpy(ip, head + kIp, sizeof(ip));
  if ((type & kTypeAndVersionMask) != kTypeAndVersion || (ip[1] & kFragmentMask) != 0) return false;
  const uint32_t total = __builtin_bswap32(ip[0]) & 0xffff;
  const auto protocol = static_cast<uint8_t>(ip[2] >> 8);
  const size_t need = protocol == kUdp ? kL4 + kUdpBytes : protocol == kTcp ? kL4 + kTcpBytes : SIZE_MAX;
  if (total + kIp != frame_bytes || head_bytes < need) return false;
  // Sums in the host's order of bytes are zero or not as those in the network's are (RFC 1071), modulo 2^16 - 1; none
  // of them is 0.
  const uint64_t addresses = uint64_t{ip[3]} + ip[4];
  const bool good = (addresses + ip[0] + ip[1] + ip[2]) % 0xffff == 0;
  result.ipv4_header = good ? ChecksumVerdict::kGood : ChecksumVerdict::kBad;
  uint16_t udp_sum;
  std::memcpy(&udp_sum, head + kUdpSum, sizeof(udp_sum));
  if (!good || (protocol == kUdp && udp_sum == 0)) return true;
  // A good header sums up to zero, so that the sum of the frame is that of what follows it.
  const uint32_t pseudo = uint32_t{protocol} << 8;
  const auto l4_bytes = static_cast<uint16_t>(total - (kL4 - kIp));
  const uint64_t all = addresses + pseudo + __builtin_bswap16(l4_bytes) + __builtin_bswap16(sum);
  result.l4 = all % 0xffff == 0 ? ChecksumVerdict::kGood : ChecksumVerdict::kBad;
  return true;
}

/// The folded one's complement sum of bytes as big-endian 16-bit words.
uint16_t ones_complement_sum(const uint8_t* bytes, size_t size, uint32_t start = 0);

}  // namespace mqnic
