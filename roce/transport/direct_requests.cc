#include "transport/direct_requests.h"

#include <algorithm>
#include <array>

#include "transport/direct_checks.h"
#include "uroce/limits.h"

namespace uroce {

namespace {

using Pieces = std::array<DirectPiece, DirectPeer::kPiecesMax>;
static_assert(kMaxSges <= DirectPeer::kPiecesMax, "a request's pieces fit");

/// Finds where bytes [offset, offset + bytes) of the request lie in this process. Returns how many pieces; 0 when one
/// is not there, or has no memory: then the requester says what is wrong when it makes a packet of it.
size_t find_pieces(const QpContext& context, const SendWqe& wqe, uint64_t offset, uint64_t bytes, Pieces& pieces) {
  const uint32_t rights = wqe.is_read() ? uint32_t{kLocalWrite} : 0;
  size_t count = 0;
  for (const Sge& sge : wqe.sge_span()) {
    if (bytes == 0) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    uint8_t* start = nullptr;
    const AccessCheck check = context.env.memory.check(sge.lkey, context.pd, sge.addr, sge.length, rights, 0, start);
    if (check != AccessCheck::kOk) return 0;
    const uint64_t here = std::min(sge.length - offset, bytes);
    pieces[count++] = {start + offset, here};
    bytes -= here;
    offset = 0;
  }
  return bytes == 0 ? count : 0;
}

DirectRequest request_of(const QpContext& context, const SendWqe& wqe, Psn next) {
  return {.read = wqe.is_read(),
          .qpn = context.qpn,
          .dest_qpn = context.attributes.dest_qpn,
          .vlan_id = context.path.vlan_id,
          .own = context.path.src_ip,
          .peer = context.path.dst_ip,
          .psn = next.value(),
          .va = wqe.remote_addr,
          .rkey = wqe.rkey,
          .length = wqe.length};
}

DirectPeer* peer_of(const QpContext& context) {
  return context.env.direct->find(context.path.dst_mac, context.attributes.dest_qpn);
}

}  // namespace

bool DirectRequests::takes(const SendWqe& wqe, uint32_t position) const {
  if (wqe.length < kBytesMin || wqe.inlined) return false;
  if (wqe.opcode != WrOpcode::kRdmaWrite && wqe.opcode != WrOpcode::kRdmaRead) return false;
  if ((wqe.started && !under_way_) || (refused_ && refused_at_ == position)) return false;
  // The requester itself says what is wrong with a READ that may not be under way.
  if (wqe.is_read() && context_.attributes.max_rd_atomic == 0) return false;
  if (context_.rate.limited() || context_.rate.control() != nullptr || !context_.path_resolved) return false;
  const DirectPeer* const peer = peer_of(context_);
  return peer != nullptr && peer->shows(context_.attributes.dest_qpn, wqe.rkey);
}

DirectRequests::Step DirectRequests::carry_out(SendWqe& wqe, uint32_t position, Psn next, uint32_t& room, Instant now) {
  if (room == 0) return Step::kPart;
  if (!under_way_) {
    under_way_ = true;
    copied_ = 0;
    // So that a queue that is drained (SQD) ends what has begun.
    wqe.started = true;
    wqe.first_psn = next;
  }
  const uint32_t bytes = std::min(room, wqe.length - copied_);
  if (!copy(wqe, bytes, next, now)) {
    refused_ = true;
    refused_at_ = position;
    leave(wqe);
    return Step::kInFrames;
  }
  copied_ += bytes;
  room -= bytes;
  context_.counters().direct_bytes += bytes;
  if (copied_ < wqe.length) return Step::kPart;
  under_way_ = false;
  wqe.is_read() ? context_.counters().direct_reads++ : context_.counters().direct_writes++;
  return Step::kDone;
}

void DirectRequests::leave(SendWqe& wqe) {
  if (!under_way_) return;
  under_way_ = false;
  wqe.started = false;
}

/// All is looked at again for each part: the peer or this program may have taken back its memory in between.
bool DirectRequests::copy(const SendWqe& wqe, uint32_t bytes, Psn next, Instant now) const {
  Pieces pieces;
  const size_t count = find_pieces(context_, wqe, copied_, bytes, pieces);
  DirectPeer* const peer = count != 0 ? peer_of(context_) : nullptr;
  if (peer == nullptr) return false;
  const DirectRequest request = request_of(context_, wqe, next);
  const std::span<const DirectPiece> here(pieces.data(), count);
  ShownTarget target;
  bool copied = false;
  if (peer->begin(request.dest_qpn, request.rkey, target, now)) {
    if (const auto address = direct_address(target, request)) {
      const bool ends = copied_ + bytes == wqe.length;
      copied = request.read ? peer->read(*address + copied_, here) : peer->write(*address + copied_, here, ends);
    }
  }
  peer->end();
  return copied;
}

}  // namespace uroce
