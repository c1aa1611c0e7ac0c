#include "transport/tag_matching.h"

#include "transport/completion_queue.h"

namespace uroce {

namespace {

WcOpcode opcode_of(TagOp::Kind kind) {
  switch (kind) {
    case TagOp::Kind::kAdd:
      return WcOpcode::kTmAdd;
    case TagOp::Kind::kRemove:
      return WcOpcode::kTmDel;
    default:
      return WcOpcode::kTmSync;
  }
}

}  // namespace

PostResult TagMatching::post(TagOp& op, Instant now) {
  if (op.kind == TagOp::Kind::kAdd) {
    if (op.receive.num_sge > TagList::kSgesMax) return PostResult::kTooManySges;
    if (tag_slots_.full()) return PostResult::kQueueFull;
  }
  if (op_slots_.full()) return PostResult::kQueueFull;
  if (op.sync) handled_ = op.unexpected;
  const Cause cause = carry_out(op);
  if (cause == Cause::kNone && !op.signaled) return PostResult::kOk;
  op_slots_.take();
  op_slots_.end();
  Completion completion;
  completion.wr_id = op.wr_id;
  completion.status = cause == Cause::kNone ? WcStatus::kSuccess : WcStatus::kTmErr;
  completion.cause = cause;
  completion.opcode = opcode_of(op.kind);
  completion.flags = in_step() ? 0 : kWcTmSyncReq;
  completion.timestamp_ns = now.ns;
  (void)cq_.push(completion, false, op_slots_);  // a queue that is full says so itself
  return PostResult::kOk;
}

Cause TagMatching::carry_out(TagOp& op) {
  switch (op.kind) {
    case TagOp::Kind::kAdd:
      op.handle = 0;
      if (!in_step()) return Cause::kTagOutOfStep;
      op.handle = list_.add(op.receive);
      tag_slots_.take();
      return Cause::kNone;
    case TagOp::Kind::kRemove:
      if (!list_.remove(op.handle)) return Cause::kTagGone;
      tag_slots_.give_back(1);
      return Cause::kNone;
    default:
      return Cause::kNone;
  }
}

}  // namespace uroce
