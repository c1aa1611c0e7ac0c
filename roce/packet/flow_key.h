// What flows look at in a frame, and what they want to find there.
//
// A key is the frame's fields in a fixed order, in network byte order, and zeros for what the frame does not have. A
// match is a key and a mask: a frame matches when its key has the match's bits wherever the mask has ones.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

namespace uroce {

/// Which headers a frame has, or a flow asks for.
enum FlowLayer : uint8_t {
  kFlowVlan = 1,
  kFlowIpv4 = 2,
  kFlowIpv6 = 4,
  kFlowTcp = 8,
  kFlowUdp = 16,
  kFlowVxlan = 32,
};

struct FlowKey {
  uint8_t dst_mac[6] = {};
  uint8_t src_mac[6] = {};
  uint8_t ether_type[2] = {};  // behind all VLAN tags
  uint8_t vlan_tag[2] = {};    // the first: priority and VLAN
  uint8_t layers = 0;          // FlowLayer
  uint8_t traffic_class = 0;   // of IPv6; the TOS of IPv4
  uint8_t hop_limit = 0;       // the TTL of IPv4
  uint8_t protocol = 0;        // of IPv4; the next header of IPv6
  uint8_t ip_flags = 0;        // IPv4: kIpDontFragment, kIpMoreFragments
  uint8_t reserved[7] = {};
  uint8_t src_ip[16] = {};  // the first four bytes for IPv4
  uint8_t dst_ip[16] = {};
  uint8_t flow_label[4] = {};
  uint8_t src_port[2] = {};  // TCP and UDP
  uint8_t dst_port[2] = {};
  uint8_t tunnel_id[4] = {};  // VXLAN: a zero and the network identifier

  /// The flags as verbs has them.
  static constexpr uint8_t kIpDontFragment = 2;
  static constexpr uint8_t kIpMoreFragments = 4;

  bool has(FlowLayer layer) const { return (layers & layer) != 0; }
};

/// Reads a frame from its beginning, as far as it is there: no more than the first 128 bytes of a frame are needed.
FlowKey flow_key_of(std::span<const uint8_t> frame);

struct FlowMatch {
  FlowKey value;  // 0 wherever the mask is
  FlowKey mask;

  bool matches(const FlowKey& key) const {
    constexpr size_t kWords = sizeof(FlowKey) / 8;
    std::array<uint64_t, kWords> k, v, m;
    std::memcpy(k.data(), &key, sizeof key);
    std::memcpy(v.data(), &value, sizeof value);
    std::memcpy(m.data(), &mask, sizeof mask);
    uint64_t wrong = 0;
    for (size_t i = 0; i < kWords; i++) wrong |= (k[i] & m[i]) ^ v[i];
    return wrong == 0;
  }
};
static_assert(sizeof(FlowKey) == 72 && alignof(FlowKey) == 1);

}  // namespace uroce
