#include "transport/response_data.h"

#include "transport/request_encoder.h"
#include "transport/sge_list.h"

namespace uroce {

namespace {

Cause store(const QpContext& context, const SendWqe& wqe, uint64_t offset, const uint8_t* data, uint32_t bytes) {
  PieceList pieces;
  const AccessCheck check = resolve(context.env.memory, context.pd, wqe.sge_span(), offset, bytes, kLocalWrite, pieces);
  if (check != AccessCheck::kOk) return cause_of(check);
  return scatter(pieces, data, bytes) ? Cause::kNone : Cause::kMemoryGone;
}

}  // namespace

Cause store_read_response(const QpContext& context, const SendWqe& wqe, const PacketView& packet, bool parts_asked) {
  const auto index = static_cast<uint32_t>(distance(wqe.first_psn, packet.bth.psn));
  const bool last = index + 1 == wqe.packets;
  const uint64_t offset = uint64_t{index} * context.mtu;
  if (wqe.is_placement()) {
    return packet.payload_bytes == 0 && packet.info->is_only() && padding_fits(packet) ? Cause::kNone
                                                                                       : Cause::kBadReadResponse;
  }
  const uint32_t expected = last ? static_cast<uint32_t>(wqe.length - offset) : context.mtu;
  const bool early_last = !last && parts_asked;
  if (packet.payload_bytes != expected || (packet.info->is_last() != last && !early_last) || !padding_fits(packet)) {
    return Cause::kBadReadResponse;
  }
  return store(context, wqe, offset, packet.payload, expected);
}

Cause store_atomic_response(const QpContext& context, const SendWqe& wqe, const PacketView& packet) {
  const uint64_t original = packet.atomic_ack_eth().original;
  return store(context, wqe, 0, reinterpret_cast<const uint8_t*>(&original), sizeof original);
}

}  // namespace uroce
