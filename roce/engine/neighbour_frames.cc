#include "engine/neighbour_frames.h"

namespace uroce {

uint32_t NeighbourFrames::write_announcement(std::span<uint8_t> out, const LocalAddress& address) {
  if (!address.ip.is_v4()) return write_advertisement_to_all(out, address);
  counters_.arp_tx++;
  const Arp arp{Arp::kRequest, mac_, address.ip, MacAddress{}, address.ip};
  return encode_arp(out, {kBroadcastMac, mac_, address.vlan_id}, arp);
}

uint32_t NeighbourFrames::write_question(std::span<uint8_t> out, const NeighbourQuestion& question) {
  if (question.ip.is_v4()) {
    counters_.arp_tx++;
    const Arp arp{Arp::kRequest, mac_, question.source.ip, question.holder.value_or(MacAddress{}), question.ip};
    return encode_arp(out, {question.holder.value_or(kBroadcastMac), mac_, question.vlan_id}, arp);
  }
  counters_.nd_tx++;
  NeighbourMessage m;
  m.src_ip = question.source.ip;
  m.dst_ip = question.holder ? question.ip : solicited_node_multicast(question.ip);
  m.target = question.ip;
  m.link_layer = mac_;
  const MacAddress to = question.holder ? *question.holder : multicast_mac(m.dst_ip);
  return encode_neighbour_message(out, {to, mac_, question.vlan_id}, m);
}

uint32_t NeighbourFrames::write_reply(std::span<uint8_t> out, const Arp& request, const LocalAddress& ours) {
  counters_.arp_tx++;
  const Arp reply{Arp::kReply, mac_, ours.ip, request.sender_mac, request.sender_ip};
  return encode_arp(out, {request.sender_mac, mac_, ours.vlan_id}, reply);
}

uint32_t NeighbourFrames::write_reply(std::span<uint8_t> out, const LinkFrame& link,
                                      const NeighbourMessage& solicitation, const LocalAddress& ours) {
  // A host probes whether the address is free.
  if (solicitation.src_ip.is_zero()) return write_advertisement_to_all(out, ours);
  const MacAddress to = solicitation.link_layer.value_or(link.src_mac);
  return write_advertisement(out, ours, solicitation.src_ip, to, true);
}

uint32_t NeighbourFrames::write_advertisement_to_all(std::span<uint8_t> out, const LocalAddress& ours) {
  const IpAddress all = all_nodes_multicast();
  return write_advertisement(out, ours, all, multicast_mac(all), false);
}

uint32_t NeighbourFrames::write_advertisement(std::span<uint8_t> out, const LocalAddress& ours, const IpAddress& to_ip,
                                              const MacAddress& to, bool solicited) {
  counters_.nd_tx++;
  NeighbourMessage m;
  m.advertisement = true;
  m.solicited = solicited;
  m.override_cache = true;
  m.src_ip = m.target = ours.ip;
  m.dst_ip = to_ip;
  m.link_layer = mac_;
  return encode_neighbour_message(out, {to, mac_, ours.vlan_id}, m);
}

}  // namespace uroce
