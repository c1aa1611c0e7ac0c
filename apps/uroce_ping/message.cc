#include "message.h"

#include <algorithm>
#include <array>

namespace uroce::ping {
namespace {

constexpr std::array<uint8_t, 8> kMagic = {'u', 'r', 'o', 'c', 'e', 'p', 'n', 'g'};
constexpr size_t kKindAt = 8, kTrafficClassAt = 9, kSequenceAt = 12, kLengthAt = 16;  // 10 and 11 are zero
constexpr size_t kIpv4At = 20;

void put(uint32_t value, uint8_t* at) {
  for (int i = 0; i < 4; i++) at[i] = static_cast<uint8_t>(value >> (24 - 8 * i));
}

uint32_t get(const uint8_t* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | uint32_t{at[3]};
}

/// Of an IPv4 header with its own checksum in it: zero if it is right.
uint16_t checksum(const uint8_t* header, size_t bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes; i += 2) sum += uint32_t{header[i]} << 8 | header[i + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

}  // namespace

void encode(const Message& message, std::span<uint8_t> datagram) {
  std::ranges::copy(kMagic, datagram.begin());
  datagram[kKindAt] = message.answer ? 1 : 0;
  datagram[kTrafficClassAt] = message.traffic_class;
  datagram[10] = datagram[11] = 0;
  put(message.sequence, &datagram[kSequenceAt]);
  put(message.length, &datagram[kLengthAt]);
}

std::optional<Message> decode(std::span<const uint8_t> datagram) {
  if (datagram.size() < kMessageBytes || !std::ranges::equal(kMagic, datagram.first(kMagic.size()))) return {};
  if (datagram[kKindAt] > 1) return {};
  return Message{.answer = datagram[kKindAt] == 1,
                 .traffic_class = datagram[kTrafficClassAt],
                 .sequence = get(&datagram[kSequenceAt]),
                 .length = get(&datagram[kLengthAt])};
}

/// The last 20 bytes of an IPv6 header are addresses, and hardly ever have a first byte and a checksum of IPv4.
uint8_t traffic_class_of(std::span<const uint8_t, kGrhBytes> grh) {
  const uint8_t* const ipv4 = &grh[kIpv4At];
  if (ipv4[0] == 0x45 && checksum(ipv4, kGrhBytes - kIpv4At) == 0) return ipv4[1];
  return static_cast<uint8_t>(grh[0] << 4 | grh[1] >> 4);
}

}  // namespace uroce::ping
