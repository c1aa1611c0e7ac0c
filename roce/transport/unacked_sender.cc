#include "transport/datagram.h"
#include "transport/request_encoder.h"

namespace uroce {

void UnackedSender::start() {
  next_psn_ = context_.attributes.sq_psn;
  packet_ = 0;
}

bool UnackedSender::wants_transmit() const {
  if (ring_.empty() || context_.failed || context_.send_queue_failed) return false;
  return context_.state == QpState::kRts || (context_.state == QpState::kSqd && packet_ != 0);
}

bool UnackedSender::run_local(SendWqe& wqe) {
  if (wqe.opcode == WrOpcode::kBindMw) return context_.env.memory.bind_window(wqe.bind, context_.pd, context_.qpn) != 0;
  return context_.env.memory.invalidate(wqe.imm_or_rkey, context_.pd, context_.qpn);
}

bool UnackedSender::poll_transmit(TxFrame& frame, Instant now) {
  while (wants_transmit()) {
    SendWqe& wqe = ring_.front();
    if (wqe.is_local()) {
      const bool ok = run_local(wqe);
      complete_head(ok ? Cause::kNone : wqe.opcode == WrOpcode::kBindMw ? Cause::kBindRefused : Cause::kLocalKey, now);
      continue;
    }
    const Cause cause = encode_request(context_, wqe, packet_, next_psn_, false, frame);
    if (cause != Cause::kNone) {
      complete_head(cause, now);
      return false;
    }
    next_psn_ += 1;
    if (++packet_ == wqe.packets) complete_head(Cause::kNone, now);
    return true;
  }
  return false;
}

void UnackedSender::complete_head(Cause cause, Instant now) {
  const SendWqe& wqe = ring_.front();
  slots_.end();
  if (cause != Cause::kNone || wqe.has(kSendSignaled)) {
    Completion completion;
    completion.wr_id = wqe.wr_id;
    completion.status = status_of(cause);
    completion.cause = cause;
    completion.opcode = completion_opcode(wqe.opcode);
    completion.byte_len = wqe.length;
    context_.complete(context_.send_cq, slots_, completion, false, now);
    if (cause != Cause::kNone && wqe.opcode == WrOpcode::kBindMw) context_.on_bind_error(wqe.bind);
  }
  ring_.pop();
  packet_ = 0;
  // A local failure stops the send queue alone; receiving goes on (state SQE).
  if (cause != Cause::kNone && cause != Cause::kFlushed) context_.send_queue_failed = true;
}

void UnackedSender::flush(Instant now) {
  while (!ring_.empty()) complete_head(Cause::kFlushed, now);
}

}  // namespace uroce
