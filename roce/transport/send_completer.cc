#include "transport/send_completer.h"

#include "transport/rendezvous.h"
#include "transport/request_encoder.h"

namespace uroce {

Cause run_local(QpContext& context, const SendWqe& wqe) {
  MemoryTable& memory = context.env.memory;
  const bool done = wqe.opcode == WrOpcode::kBindMw ? memory.bind_window(wqe.bind(), context.pd, context.qpn) != 0
                                                    : memory.invalidate(wqe.imm_or_rkey, context.pd, context.qpn);
  return done ? Cause::kNone : Cause::kBindRefused;
}

/// Completions in error are always made, others only when they were asked for.
Outcome report_send(QpContext& context, SendQueue& queue, Cause cause, Instant now) {
  const SendWqe& wqe = queue.ring().front();
  if (wqe.posted_by_device()) return report_device_work(context, queue, cause, now);
  queue.slots().end();
  if (cause == Cause::kNone && !wqe.has(kSendSignaled)) return Outcome::kGoesOn;
  Completion completion;
  completion.wr_id = wqe.wr_id;
  if (cause != Cause::kNone) {
    completion.status = status_of(cause);
    completion.cause = cause;
  }
  completion.opcode = completion_opcode(wqe.opcode);
  completion.byte_len = wqe.length;
  const Outcome outcome = context.complete_send(queue.slots(), completion, now);
  if (cause != Cause::kNone && wqe.opcode == WrOpcode::kBindMw) context.on_bind_error(wqe.bind());
  return outcome;
}

Outcome SendCompleter::fail(Cause cause, Instant now) {
  local_error_ = Cause::kNone;
  (void)take(cause, now);
  return Outcome::kFailed;
}

void SendCompleter::flush(Instant now) {
  local_error_ = Cause::kNone;
  while (!queue_.ring().empty()) (void)take(Cause::kFlushed, now);  // the QP has failed already
}

Outcome SendCompleter::set_local_error(Cause cause, Instant now) {
  local_error_ = cause;
  return settle(now);
}

Outcome SendCompleter::settle(Instant now) {
  const Ring<SendWqe>& ring = queue_.ring();
  while (!ring.empty() && ring.front().done) {
    if (complete(now) == Outcome::kFailed) return Outcome::kFailed;
  }
  return has_local_error() && window_.at_head() ? fail(local_error_, now) : Outcome::kGoesOn;
}

}  // namespace uroce
