// Receive side scaling: the Toeplitz hash of a frame's addresses and ports, by which NICs choose a queue.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "packet/flow_key.h"

namespace uroce {

inline constexpr size_t kRssKeyBytes = 40;
using RssKey = std::array<uint8_t, kRssKeyBytes>;

/// Which fields count; ibv_rx_hash_fields.
enum RssField : uint32_t {
  kRssSrcIpv4 = 1,
  kRssDstIpv4 = 1 << 1,
  kRssSrcIpv6 = 1 << 2,
  kRssDstIpv6 = 1 << 3,
  kRssSrcPortTcp = 1 << 4,
  kRssDstPortTcp = 1 << 5,
  kRssSrcPortUdp = 1 << 6,
  kRssDstPortUdp = 1 << 7,
};
inline constexpr uint32_t kRssFields = 0xFF;

/// `input`: at most 36 bytes, which is all that a key of 40 reaches.
uint32_t toeplitz(const RssKey& key, std::span<const uint8_t> input);

/// Of those of `fields` that the frame has, in the order source address, destination address, source port, destination
/// port. 0 when it has none.
uint32_t rss_hash(const RssKey& key, uint32_t fields, const FlowKey& frame);

}  // namespace uroce
