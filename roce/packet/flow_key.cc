#include "packet/flow_key.h"

#include "base/big_endian.h"
#include "packet/network_headers.h"

namespace uroce {
namespace {

constexpr uint16_t kEtherServiceVlan = 0x88A8;
constexpr uint8_t kProtocolTcp = 6;
constexpr uint16_t kVxlanUdpPort = 4789;
constexpr uint32_t kVxlanBytes = 8;
constexpr uint32_t kVlanTagsMax = 2;

/// TCP and UDP begin with their ports.
void read_transport(std::span<const uint8_t> frame, size_t at, FlowKey& key) {
  if (key.protocol != kProtocolTcp && key.protocol != kProtocolUdp) return;
  if (frame.size() < at + 4) return;
  key.layers |= key.protocol == kProtocolTcp ? kFlowTcp : kFlowUdp;
  std::memcpy(key.src_port, &frame[at], 2);
  std::memcpy(key.dst_port, &frame[at + 2], 2);
  const bool vxlan = key.protocol == kProtocolUdp && load_be16(key.dst_port) == kVxlanUdpPort;
  if (!vxlan || frame.size() < at + kUdpBytes + kVxlanBytes) return;
  key.layers |= kFlowVxlan;
  std::memcpy(key.tunnel_id + 1, &frame[at + kUdpBytes + 4], 3);
}

void read_ipv4(std::span<const uint8_t> frame, size_t at, FlowKey& key) {
  if (frame.size() < at + kIpv4Bytes || frame[at] >> 4 != 4) return;
  const uint8_t* const ip = &frame[at];
  const size_t header = size_t{ip[0] & 0xFu} * 4;
  if (header < kIpv4Bytes) return;
  key.layers |= kFlowIpv4;
  key.traffic_class = ip[1];
  key.hop_limit = ip[8];
  key.protocol = ip[9];
  const uint16_t fragment = load_be16(ip + 6);
  key.ip_flags = static_cast<uint8_t>(((fragment & 0x4000) != 0 ? FlowKey::kIpDontFragment : 0) |
                                      ((fragment & 0x2000) != 0 ? FlowKey::kIpMoreFragments : 0));
  std::memcpy(key.src_ip, ip + 12, 4);
  std::memcpy(key.dst_ip, ip + 16, 4);
  if ((fragment & 0x1FFF) == 0) read_transport(frame, at + header, key);
}

void read_ipv6(std::span<const uint8_t> frame, size_t at, FlowKey& key) {
  if (frame.size() < at + kIpv6Bytes || frame[at] >> 4 != 6) return;
  const uint8_t* const ip = &frame[at];
  key.layers |= kFlowIpv6;
  const uint32_t word = load_be32(ip);
  key.traffic_class = static_cast<uint8_t>(word >> 20);
  store_be32(key.flow_label, word & 0xFFFFF);
  key.protocol = ip[6];
  key.hop_limit = ip[7];
  std::memcpy(key.src_ip, ip + 8, 16);
  std::memcpy(key.dst_ip, ip + 24, 16);
  read_transport(frame, at + kIpv6Bytes, key);  // extension headers are another protocol
}

}  // namespace

FlowKey flow_key_of(std::span<const uint8_t> frame) {
  FlowKey key;
  if (frame.size() < kEthernetBytes) return key;
  std::memcpy(key.dst_mac, frame.data(), 6);
  std::memcpy(key.src_mac, frame.data() + 6, 6);
  size_t at = 12;
  uint16_t type = load_be16(&frame[at]);
  for (uint32_t tags = 0; tags < kVlanTagsMax && (type == kEtherVlan || type == kEtherServiceVlan); tags++) {
    if (frame.size() < at + kVlanBytes + 2) break;
    if (!key.has(kFlowVlan)) std::memcpy(key.vlan_tag, &frame[at + 2], 2);
    key.layers |= kFlowVlan;
    at += kVlanBytes;
    type = load_be16(&frame[at]);
  }
  std::memcpy(key.ether_type, &frame[at], 2);
  if (type == kEtherIpv4) read_ipv4(frame, at + 2, key);
  if (type == kEtherIpv6) read_ipv6(frame, at + 2, key);
  return key;
}

}  // namespace uroce
