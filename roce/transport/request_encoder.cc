#include "transport/request_encoder.h"

#include <algorithm>

#include "transport/address_handle.h"
#include "transport/frame_builder.h"
#include "transport/sge_list.h"

namespace uroce {

namespace {

struct Shape {
  uint8_t low;
  uint32_t ext_bytes;
};

/// Opcode and extension headers of packet `index` of a SEND or WRITE.
Shape message_shape(const SendWqe& wqe, bool first, bool last) {
  switch (wqe.opcode) {
    case WrOpcode::kSend:
      return {first ? (last ? kOpSendOnly : kOpSendFirst) : (last ? kOpSendLast : kOpSendMiddle), 0};
    case WrOpcode::kSendWithImm:
      if (last) return {first ? kOpSendOnlyImm : kOpSendLastImm, ImmDt::kBytes};
      return {first ? kOpSendFirst : kOpSendMiddle, 0};
    case WrOpcode::kSendWithInv:
      if (last) return {first ? kOpSendOnlyInv : kOpSendLastInv, Ieth::kBytes};
      return {first ? kOpSendFirst : kOpSendMiddle, 0};
    case WrOpcode::kRdmaWrite:
      if (first) return {last ? kOpWriteOnly : kOpWriteFirst, Reth::kBytes};
      return {last ? kOpWriteLast : kOpWriteMiddle, 0};
    default:  // kRdmaWriteWithImm
      if (first) return {last ? kOpWriteOnlyImm : kOpWriteFirst, Reth::kBytes + (last ? ImmDt::kBytes : 0)};
      return {last ? kOpWriteLastImm : kOpWriteMiddle, last ? ImmDt::kBytes : 0};
  }
}

/// XRC: the XRCETH stands before all other extension headers of a request.
uint32_t xrceth_bytes(const QpContext& context) { return context.service == Service::kXrc ? Xrceth::kBytes : 0; }
uint8_t* encode_xrceth(const QpContext& context, const SendWqe& wqe, uint8_t* ext) {
  if (context.service != Service::kXrc) return ext;
  Xrceth{wqe.remote_srqn}.encode(ext);
  return ext + Xrceth::kBytes;
}

/// Extension headers of a SEND or WRITE, in wire order: DETH or XRCETH, RETH, ImmDt or IETH.
void encode_message_ext(const QpContext& context, const SendWqe& wqe, bool first, bool last, uint8_t* ext) {
  if (context.type == QpType::kUd) {
    // A Q_Key with its top bit set stands for the Q_Key of the QP itself.
    const bool own = (wqe.remote_qkey & 0x80000000u) != 0;
    Deth{own ? context.attributes.qkey : wqe.remote_qkey, context.qpn}.encode(ext);
    ext += Deth::kBytes;
  }
  ext = encode_xrceth(context, wqe, ext);
  if (first && wqe.is_write()) {
    Reth{wqe.remote_addr, wqe.rkey, wqe.length}.encode(ext);
    ext += Reth::kBytes;
  }
  if (!last) return;
  if (wqe.opcode == WrOpcode::kSendWithImm || wqe.opcode == WrOpcode::kRdmaWriteWithImm) {
    ImmDt{wqe.imm_or_rkey}.encode(ext);
  } else if (wqe.opcode == WrOpcode::kSendWithInv) {
    Ieth{wqe.imm_or_rkey}.encode(ext);
  }
}

Cause encode_message(QpContext& context, const SendWqe& wqe, uint32_t index, Bth& bth, TxFrame& frame) {
  const bool ud = context.type == QpType::kUd;
  const bool first = index == 0;
  const bool last = index + 1 == wqe.packets;
  const uint64_t offset = uint64_t{index} * context.mtu;
  const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(wqe.length - offset, context.mtu));
  PieceList pieces;
  if (wqe.inlined) {
    pieces.pieces[0] = {.memory = wqe.inline_data + offset, .bytes = bytes, .drops = false};
    pieces.count = bytes != 0 ? 1 : 0;
  } else {
    const AccessCheck check = resolve(context.env.memory, context.pd, wqe.sge_span(), offset, bytes, 0, pieces);
    if (check != AccessCheck::kOk) return cause_of(check);
  }
  const RouteHeader& header = ud ? wqe.ah->header : context.data_header;
  const Shape shape = message_shape(wqe, first, last);
  const uint32_t ext_bytes = shape.ext_bytes + (ud ? Deth::kBytes : xrceth_bytes(context));
  if (frame.capacity < header.bytes() + Bth::kBytes + ext_bytes + bytes + 3 + kIcrcBytes) return Cause::kMessageTooLong;
  bth.opcode = make_opcode(context.service, shape.low);
  bth.solicited = last && wqe.has(kSendSolicited) && wqe.takes_receive();
  FrameBuilder builder(frame, header, bth, ext_bytes, bytes);
  encode_message_ext(context, wqe, first, last, builder.ext());
  for (const Piece& piece : pieces) {
    if (!builder.append_registered(piece.memory, piece.bytes)) return Cause::kMemoryGone;
  }
  builder.finish();
  return Cause::kNone;
}

void encode_flush(const QpContext& context, const SendWqe& wqe, Bth& bth, TxFrame& frame) {
  bth.opcode = make_opcode(Service::kRc, kOpFlush);
  FrameBuilder builder(frame, context.header, bth, Feth::kBytes + Reth::kBytes, 0);
  Feth::from(wqe.imm_or_rkey).encode(builder.ext());
  Reth{wqe.remote_addr, wqe.rkey, static_cast<uint32_t>(wqe.compare_add)}.encode(builder.ext() + Feth::kBytes);
  builder.finish();
}

void encode_atomic_write(const QpContext& context, const SendWqe& wqe, Bth& bth, TxFrame& frame) {
  bth.opcode = make_opcode(Service::kRc, kOpAtomicWrite);
  FrameBuilder builder(frame, context.header, bth, Reth::kBytes, kAtomicWriteBytes);
  Reth{wqe.remote_addr, wqe.rkey, kAtomicWriteBytes}.encode(builder.ext());
  builder.append(reinterpret_cast<const uint8_t*>(&wqe.swap), kAtomicWriteBytes);
  builder.finish();
}

}  // namespace

Cause encode_request(QpContext& context, const SendWqe& wqe, uint32_t index, Psn psn, AckRequest ack_request,
                     TxFrame& frame, uint32_t read_packets) {
  Bth bth;
  bth.dest_qp = context.type == QpType::kUd ? wqe.remote_qpn : context.attributes.dest_qpn;
  bth.psn = psn;
  bth.ack_req = ack_request == AckRequest::kYes;
  if (wqe.is_read()) {
    const uint64_t done = uint64_t{index} * context.mtu;
    const uint64_t bytes = std::min<uint64_t>(wqe.length - done, uint64_t{read_packets} * context.mtu);
    bth.opcode = make_opcode(context.service, kOpReadRequest);
    FrameBuilder builder(frame, context.header, bth, xrceth_bytes(context) + Reth::kBytes, 0);
    uint8_t* const ext = encode_xrceth(context, wqe, builder.ext());
    Reth{wqe.remote_addr + done, wqe.rkey, static_cast<uint32_t>(bytes)}.encode(ext);
    builder.finish();
    return Cause::kNone;
  }
  if (wqe.is_atomic()) {
    const bool swap = wqe.opcode == WrOpcode::kCompareSwap;
    bth.opcode = make_opcode(context.service, swap ? kOpCompareSwap : kOpFetchAdd);
    FrameBuilder builder(frame, context.header, bth, xrceth_bytes(context) + AtomicEth::kBytes, 0);
    uint8_t* const ext = encode_xrceth(context, wqe, builder.ext());
    AtomicEth{wqe.remote_addr, wqe.rkey, swap ? wqe.swap : wqe.compare_add, swap ? wqe.compare_add : 0}.encode(ext);
    builder.finish();
    return Cause::kNone;
  }
  if (wqe.is_placement()) {
    (wqe.opcode == WrOpcode::kFlush ? encode_flush : encode_atomic_write)(context, wqe, bth, frame);
    return Cause::kNone;
  }
  return encode_message(context, wqe, index, bth, frame);
}

Cause cause_of(AccessCheck check) { return check == AccessCheck::kOutOfRange ? Cause::kLocalRange : Cause::kLocalKey; }

WcStatus status_of(Cause cause) {
  switch (cause) {
    case Cause::kNone:
      return WcStatus::kSuccess;
    case Cause::kMessageTooLong:
    case Cause::kFrameTooShort:
    case Cause::kReceiveTooShort:
      return WcStatus::kLocLenErr;
    case Cause::kLocalKey:
    case Cause::kLocalRange:
    case Cause::kMemoryGone:
      return WcStatus::kLocProtErr;
    case Cause::kNoReadDepth:
      return WcStatus::kLocQpOpErr;
    case Cause::kBadReadResponse:
      return WcStatus::kBadRespErr;
    case Cause::kBindRefused:
      return WcStatus::kMwBindErr;
    case Cause::kTimeout:
    case Cause::kPeerUnresolved:
    case Cause::kSequenceRetries:
      return WcStatus::kRetryExcErr;
    case Cause::kRnrRetries:
      return WcStatus::kRnrRetryExcErr;
    case Cause::kNakInvalidRequest:
      return WcStatus::kRemInvReqErr;
    case Cause::kNakRemoteAccess:
      return WcStatus::kRemAccessErr;
    case Cause::kNakRemoteOperational:
      return WcStatus::kRemOpErr;
    case Cause::kFlushed:
      return WcStatus::kWrFlushErr;
    default:
      return WcStatus::kGeneralErr;
  }
}

}  // namespace uroce
