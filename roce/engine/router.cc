#include "engine/router.h"

namespace uroce {

namespace {

/// UDP source port of a flow: switches spread flows by it.
uint16_t source_port(uint32_t flow) {
  const uint32_t hash = (flow * 0x9E3779B1u) >> 18;
  return static_cast<uint16_t>(0xC000 | (hash & 0x3FFF));
}

}  // namespace

Router::Router(const AddressTable& addresses, Neighbours& neighbours, Loopback& loopback, uint8_t traffic_class)
    : addresses_(addresses), neighbours_(neighbours), loopback_(loopback), traffic_class_(traffic_class) {}

std::optional<Route> Router::route(const AddressVector& av, uint32_t flow) {
  Route path;
  path.dst_ip = av.dgid;
  const LocalAddress* source = av.is_global ? addresses_.row(av.sgid_index) : addresses_.first_v4();
  if (source == nullptr) return std::nullopt;
  if (!av.is_global) {
    // No GID given: the LID is the low half of an IPv4 address in our own network.
    if (av.dlid == 0) return std::nullopt;
    path.dst_ip = IpAddress::v4((source->ip.v4_host_order() & 0xFFFF0000u) | av.dlid);
  }
  if (path.dst_ip.is_zero() || path.dst_ip.is_v4() != source->ip.is_v4()) return std::nullopt;
  // Both sides have to use the same address, so it must be one that is valid on the wire.
  if (path.dst_ip.is_loopback()) path.dst_ip = source->ip;
  path.src_mac = addresses_.mac();
  path.src_ip = source->ip;
  path.vlan_id = source->vlan_id;
  path.pcp = source->vlan_id != 0 ? av.sl & 7 : 0;
  path.traffic_class = av.traffic_class != 0 ? av.traffic_class : traffic_class_;
  path.hop_limit = av.hop_limit != 0 ? av.hop_limit : 64;
  path.flow_label = av.flow_label & 0xFFFFF;
  path.udp_src_port = source_port(av.flow_label != 0 ? av.flow_label : flow);
  find_mac(path);
  return path;
}

void Router::find_mac(Route& path) {
  if (addresses_.is_own(path.dst_ip, path.vlan_id)) {
    path.dst_mac = addresses_.mac();
    loopback_.open();
  } else {
    path.dst_mac = neighbours_.lookup(path.dst_ip, path.vlan_id).value_or(MacAddress{});
  }
}

void Router::ask_for(const Route& path, uint8_t sgid_index, Instant now) {
  if (path.dst_mac == addresses_.mac() || path.dst_ip.is_multicast()) return;
  const std::span<const LocalAddress> gids = addresses_.gids();
  const LocalAddress* source = &gids[sgid_index < gids.size() ? sgid_index : 0];
  for (const LocalAddress& own : gids) {
    if (own.ip == path.src_ip && own.vlan_id == path.vlan_id) source = &own;
  }
  neighbours_.want(path.dst_ip, *source, now);
}

}  // namespace uroce
