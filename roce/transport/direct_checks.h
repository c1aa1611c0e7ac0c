// The checks before a peer's memory is touched without a frame: those that the peer's responder would make of the same
// request, in the same terms.
//
// They need only say yes where the responder would. Where they say no, or cannot tell, the request goes in frames, and
// the responder says what is wrong with it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/direct_copy.h"
#include "uroce/types.h"

namespace uroce {

/// A READ or WRITE that a requester has at hand, and its connection as the requester knows it.
struct DirectRequest {
  bool read = false;
  uint32_t qpn = 0;  // the requester's
  uint32_t dest_qpn = 0;
  uint16_t vlan_id = 0;
  IpAddress own = {};
  IpAddress peer = {};
  uint32_t psn = 0;  // that its first packet would have
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint32_t length = 0;
};

/// Whether the queue pair takes the request from this peer now: what Receiver and Responder ask before they look at
/// the key.
inline bool takes_request(const ShownQueuePair& qp, uint32_t next_psn, const DirectRequest& request) {
  const bool connected = qp.qpn != 0 && qp.qpn == request.dest_qpn && qp.dest_qpn == request.qpn;
  const bool this_peer = qp.own == request.peer && qp.peer == request.own && qp.vlan_id == request.vlan_id;
  if (!connected || !this_peer || next_psn != request.psn) return false;
  if (request.length == 0 || request.length > kMaxMessageBytes) return false;
  if (request.read) return (qp.access & kRemoteRead) != 0 && qp.reads != 0;
  return (qp.access & kRemoteWrite) != 0;
}

/// Where the request's bytes lie in the peer's process, if it may touch them. As MemoryTable::check: nothing here can
/// wrap, whatever the peer shows.
inline std::optional<uint64_t> direct_address(const ShownTarget& target, const DirectRequest& request) {
  const ShownRegion& region = target.region;
  if (!takes_request(target.qp, target.next_psn, request)) return std::nullopt;
  if (region.key == 0 || region.key != request.rkey || region.pd != target.qp.pd) return std::nullopt;
  const Access right = request.read ? kRemoteRead : kRemoteWrite;
  if ((region.access & right) == 0 || request.va < region.iova) return std::nullopt;
  const uint64_t offset = request.va - region.iova;
  if (offset > region.length || request.length > region.length - offset) return std::nullopt;
  const uint64_t address = region.memory + offset;
  if (address < region.memory || address + (request.length - 1) < address) return std::nullopt;
  return address;
}

}  // namespace uroce
