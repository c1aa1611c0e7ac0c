#include "transport/raw_packet.h"

#include <algorithm>
#include <cstring>

#include "base/guarded_memory.h"
#include "transport/request_encoder.h"
#include "transport/sge_list.h"

namespace uroce {

Cause encode_raw_frame(const QpContext& context, const SendWqe& wqe, TxFrame& frame) {
  if (wqe.length < kRawFrameMin) return Cause::kFrameTooShort;
  if (wqe.length > std::min(context.mtu, frame.capacity)) return Cause::kMessageTooLong;
  if (wqe.inlined) {
    std::memcpy(frame.data, wqe.inline_data, wqe.length);
  } else {
    PieceList pieces;
    const AccessCheck check = resolve(context.env.memory, context.pd, wqe.sge_span(), 0, wqe.length, 0, pieces);
    if (check != AccessCheck::kOk) return cause_of(check);
    uint8_t* at = frame.data;
    for (const Piece& piece : pieces) {
      if (!try_copy(at, piece.memory, piece.bytes)) return Cause::kMemoryGone;
      at += piece.bytes;
    }
  }
  frame.bytes = wqe.length;
  const uint32_t least = std::min(kEthernetPadding, frame.capacity);
  if (frame.bytes < least) {
    std::memset(frame.data + frame.bytes, 0, least - frame.bytes);
    frame.bytes = least;
  }
  return Cause::kNone;
}

Outcome RawReceiver::on_frame(const RawFrame& frame, Instant now) {
  const QpState s = context_.state;
  if (s != QpState::kRtr && s != QpState::kRts && s != QpState::kSqd && s != QpState::kSqe) {
    context_.counters().rx_drop_qp_state++;
    return Outcome::kGoesOn;
  }
  if (!receive_.available()) {
    context_.counters().rx_drop_no_receive++;
    return Outcome::kGoesOn;
  }
  receive_.take();
  Cause cause = receive_.append(frame.head, frame.head_bytes);
  if (cause == Cause::kNone) cause = receive_.append(frame.rest, frame.rest_bytes);
  if (cause != Cause::kNone) {
    receive_.fail(cause == Cause::kReceiveTooShort ? WcStatus::kLocLenErr : WcStatus::kLocProtErr, cause, now);
    return Outcome::kFailed;
  }
  context_.counters().rx_raw_frames++;
  Completion completion;
  completion.opcode = WcOpcode::kRecv;
  completion.byte_len = receive_.filled();
  completion.flow_tag = frame.flow_tag;
  return receive_.complete(completion, false, now);
}

}  // namespace uroce
