// What a ping and its answer carry: the first bytes of a datagram, whatever its length.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace uroce::ping {

/// Whoever serves pings listens here, among librdmacm's datagram services (RDMA_PS_UDP).
inline constexpr uint16_t kService = 4791;

/// librdmacm's, of all datagram services.
inline constexpr uint32_t kDatagramQkey = 0x01234567;

/// A receive begins with room for the GRH. A RoCEv2 device leaves the IP header there: IPv6's 40 bytes, or IPv4's in
/// the last 20.
inline constexpr uint32_t kGrhBytes = 40;

struct Message {
  bool answer = false;
  uint8_t traffic_class = 0;  // of an answer: the one with which the ping arrived
  uint32_t sequence = 0;
  uint32_t length = 0;  // of an answer: bytes of the ping that arrived
};

inline constexpr uint32_t kMessageBytes = 20;

/// Writes the first kMessageBytes of a datagram.
void encode(const Message& message, std::span<uint8_t> datagram);
/// Nothing if the datagram is neither a ping nor an answer.
std::optional<Message> decode(std::span<const uint8_t> datagram);

/// The traffic class, DSCP and ECN, in the IP header that a receive begins with.
uint8_t traffic_class_of(std::span<const uint8_t, kGrhBytes> grh);

}  // namespace uroce::ping
