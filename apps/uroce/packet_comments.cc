#include "packet_comments.h"

#include <cstdio>

#include "packet/packet.h"

namespace uroce::launcher {
namespace {

constexpr size_t kEndsMax = 1 << 18;

std::string queue_pair(uint32_t qpn) {
  char text[16];
  std::snprintf(text, sizeof text, " QP 0x%06x", qpn & 0xFFFFFF);
  return text;
}

}  // namespace

void PacketComments::connect(const End& one, const End& other) {
  if (peers_.size() >= kEndsMax) return;
  peers_[one] = other.second;
  peers_[other] = one.second;
}

std::optional<uint32_t> PacketComments::peer_of(const End& end) const {
  const auto found = peers_.find(end);
  return found != peers_.end() ? std::optional(found->second) : std::nullopt;
}

std::string PacketComments::describe(const std::string& program, bool sent, uint32_t qpn,
                                     std::span<const uint8_t> frame) {
  PacketView packet;
  if (parse_frame(frame, packet) != ParseResult::kOk) return program;
  const End here{packet.src_ip.bytes, qpn};
  const End there{packet.dst_ip.bytes, packet.bth.dest_qp};
  const bool datagram = packet.info->has(kHasDeth);
  if (sent) {
    if (qpn != 0 && !datagram) connect(here, there);
    return program + (qpn != 0 ? queue_pair(qpn) : "") + " to " + to_string(packet.dst_ip) + queue_pair(there.second);
  }
  const auto peer = datagram ? std::optional(packet.deth().src_qp) : peer_of(there);
  return program + queue_pair(there.second) + " from " + to_string(packet.src_ip) + (peer ? queue_pair(*peer) : "");
}

}  // namespace uroce::launcher
