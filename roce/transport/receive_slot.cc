#include "transport/receive_slot.h"

#include <algorithm>

namespace uroce {

void ReceiveSlot::take() {
  const RecvWqe& wqe = context_.srq != nullptr ? context_.srq->front() : own_.front();
  // Copied, because the slot of a shared queue is free for the next post as soon as it is popped.
  wqe_ = wqe;
  std::copy_n(wqe.sges, wqe.num_sge, sges_);
  wqe_.sges = sges_;
  if (context_.srq != nullptr) {
    context_.srq->pop();
  } else {
    own_.pop();
  }
  active_ = true;
  filled_ = 0;
}

Cause ReceiveSlot::append(const uint8_t* data, uint32_t bytes) {
  if (bytes == 0) return Cause::kNone;
  if (wqe_.total_bytes < filled_ || bytes > wqe_.total_bytes - filled_) return Cause::kReceiveTooShort;
  PieceList pieces;
  const AccessCheck check =
      resolve(context_.env.memory, context_.pd, {wqe_.sges, wqe_.num_sge}, filled_, bytes, kLocalWrite, pieces);
  if (check != AccessCheck::kOk) return check == AccessCheck::kOutOfRange ? Cause::kLocalRange : Cause::kLocalKey;
  if (!scatter(pieces, data, bytes)) return Cause::kMemoryGone;
  filled_ += bytes;
  return Cause::kNone;
}

Outcome ReceiveSlot::complete(Completion& completion, bool solicited, Instant now) {
  completion.wr_id = wqe_.wr_id;
  if (completion.opcode == WcOpcode::kRecv && completion.byte_len == 0) completion.byte_len = filled_;
  active_ = false;
  slots().end();
  return context_.complete_receive(slots(), completion, solicited, now);
}

void ReceiveSlot::drop() {
  if (active_ && context_.srq != nullptr) slots().give_back(1);
  active_ = false;
}

void ReceiveSlot::fail(WcStatus status, Cause cause, Instant now) {
  if (!active_) return;
  if (cause == Cause::kReceiveTooShort) context_.counters().resp_local_length_error++;
  Completion completion;
  completion.opcode = WcOpcode::kRecv;
  completion.status = status;
  completion.cause = cause;
  constexpr bool kSolicited = true;             // errors wake also those who wait for solicited completions
  (void)complete(completion, kSolicited, now);  // the QP has failed already
}

void ReceiveSlot::flush(Instant now) {
  fail(WcStatus::kWrFlushErr, Cause::kFlushed, now);
  while (!own_.empty()) {
    take();
    fail(WcStatus::kWrFlushErr, Cause::kFlushed, now);
  }
}

}  // namespace uroce
