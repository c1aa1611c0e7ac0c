#include "pmd/udp/neighbour_answers.h"

#include "packet/host_frames.h"
#include "pmd/udp/datagram.h"

namespace uroce::udp {
namespace {

NeighbourFrame read_arp(const Arp& arp) {
  NeighbourFrame out;
  if (!arp.sender_ip.is_zero() && arp.sender_ip != IpAddress::v4(0)) out.sender = arp.sender_ip;
  if (arp.operation == Arp::kRequest && arp.target_ip != arp.sender_ip) out.wanted = arp.target_ip;
  return out;
}

NeighbourFrame read_message(const NeighbourMessage& message) {
  NeighbourFrame out;
  if (message.advertisement) {
    out.sender = message.target;
    return out;
  }
  // Without a source it asks whether its own address is free.
  if (message.src_ip.is_zero()) return out;
  out.sender = message.src_ip;
  out.wanted = message.target;
  return out;
}

}  // namespace

std::optional<NeighbourFrame> read_neighbour_frame(std::span<const uint8_t> frame) {
  const auto link = decode_link(frame);
  if (!link || link->vlan_id != 0) return std::nullopt;
  if (const auto arp = decode_arp(*link)) return read_arp(*arp);
  const auto icmp = decode_icmp(*link);
  const auto message = icmp ? decode_neighbour_message(*icmp) : std::nullopt;
  if (!message) return std::nullopt;
  return read_message(*message);
}

uint32_t write_neighbour_answer(std::span<uint8_t> out, std::span<const uint8_t> question, const IpAddress& ip) {
  const auto link = decode_link(question);
  const auto heard = read_neighbour_frame(question);
  if (!link || !heard || !heard->sender || heard->wanted != ip) return 0;
  return encode_neighbour_answer(out, {link->src_mac, mac_of(ip), 0}, ip, *heard->sender);
}

}  // namespace uroce::udp
