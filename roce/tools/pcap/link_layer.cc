#include "base/big_endian.h"
#include "pcap/frame.h"

namespace uroce::pcap {
namespace {

constexpr uint16_t kEtherIpv4 = 0x0800;
constexpr uint16_t kEtherIpv6 = 0x86dd;
constexpr unsigned kMaxTags = 4;

constexpr bool is_vlan_tag(uint16_t ethertype) {
  return ethertype == 0x8100 || ethertype == 0x88a8 || ethertype == 0x9100;
}

NetworkLayer from(const Frame& frame, uint16_t ethertype, uint32_t link_bytes, uint16_t vlan_id = 0) {
  return {ethertype, vlan_id, link_bytes, frame.bytes.subspan(link_bytes)};
}

/// Skips VLAN tags. `at` is where the ethertype stands.
std::optional<NetworkLayer> tagged(const Frame& frame, uint32_t at) {
  uint16_t vlan_id = 0;
  for (unsigned tags = 0; tags <= kMaxTags; tags++) {
    if (frame.bytes.size() < at + 2u) return std::nullopt;
    const uint16_t ethertype = load_be16(frame.bytes.data() + at);
    if (!is_vlan_tag(ethertype)) return from(frame, ethertype, at + 2, vlan_id);
    if (frame.bytes.size() < at + 6u) return std::nullopt;
    vlan_id = load_be16(frame.bytes.data() + at + 2) & 0x0fff;
    at += 4;
  }
  return std::nullopt;
}

std::optional<NetworkLayer> raw_ip(const Frame& frame) {
  if (frame.bytes.empty()) return std::nullopt;
  const unsigned version = frame.bytes[0] >> 4;
  if (version != 4 && version != 6) return std::nullopt;
  return from(frame, version == 4 ? kEtherIpv4 : kEtherIpv6, 0);
}

}  // namespace

std::optional<NetworkLayer> network_layer(const Frame& frame) {
  switch (frame.link) {
    case LinkType::kEthernet:
      return tagged(frame, 12);
    case LinkType::kLinuxSll:
      return tagged(frame, 14);
    case LinkType::kLinuxSll2:
      if (frame.bytes.size() < 20) return std::nullopt;
      return from(frame, load_be16(frame.bytes.data()), 20);
    case LinkType::kRawIp:
    case LinkType::kIpv4:
    case LinkType::kIpv6:
      return raw_ip(frame);
  }
  return std::nullopt;
}

}  // namespace uroce::pcap
