#include "transport/receive_slot.h"

#include <algorithm>

#include "base/guarded_memory.h"

namespace uroce {

void ReceiveSlot::take() {
  begin(context_.srq != nullptr ? context_.srq->front() : own_.front());
  mark_ = {};
  if (context_.srq != nullptr) {
    context_.srq->pop();
  } else {
    own_.pop();
  }
}

void ReceiveSlot::take(const TaggedReceive& receive, const ReceiveMark& mark) {
  begin({receive.wr_id, receive.sges, receive.num_sge});
  mark_ = mark;
}

void ReceiveSlot::begin(const RecvWqe& wqe) {
  wqe_ = wqe;
  if (shared_sges_ != nullptr) {
    std::copy_n(wqe.sges, wqe.num_sge, shared_sges_.get());
    wqe_.sges = shared_sges_.get();
  }
  uint64_t room = 0;
  for (uint32_t i = 0; i < wqe.num_sge; i++) room += wqe.sges[i].length;
  room_ = std::min<uint64_t>(room, kMaxMessageBytes);  // longer messages there are none
  active_ = true;
  filled_ = 0;
}

Cause ReceiveSlot::append(const uint8_t* data, uint32_t bytes) {
  if (bytes == 0) return Cause::kNone;
  if (!fits(bytes)) return Cause::kReceiveTooShort;
  // What a shared queue holds belongs to the queue's protection domain, whatever queue pair takes it.
  const PdId pd = context_.srq != nullptr ? context_.srq->pd() : context_.pd;
  if (wqe_.num_sge == 1) {
    uint8_t* memory = nullptr;
    const uint64_t reach = uint64_t{filled_} + bytes;
    const Sge& sge = wqe_.sges[0];
    const AccessCheck check = context_.env.memory.check(sge.lkey, pd, sge.addr, reach, kLocalWrite, 0, memory);
    if (check == AccessCheck::kOk) {
      if (!try_copy(memory + filled_, data, bytes)) return Cause::kMemoryGone;
      filled_ += bytes;
      return Cause::kNone;
    }
  }
  PieceList pieces;
  const AccessCheck check =
      resolve(context_.env.memory, pd, {wqe_.sges, wqe_.num_sge}, filled_, bytes, kLocalWrite, pieces, Extent::kUsed);
  if (check != AccessCheck::kOk) return check == AccessCheck::kOutOfRange ? Cause::kLocalRange : Cause::kLocalKey;
  if (!scatter(pieces, data, bytes)) return Cause::kMemoryGone;
  filled_ += bytes;
  return Cause::kNone;
}

Outcome ReceiveSlot::complete(Completion& completion, bool solicited, Instant now) {
  completion.wr_id = wqe_.wr_id;
  if (completion.opcode == WcOpcode::kRecv && completion.byte_len == 0) completion.byte_len = filled_;
  if (completion.opcode == WcOpcode::kRecv) completion.opcode = mark_.opcode;
  const bool ok = completion.status == WcStatus::kSuccess;
  if (ok && mark_.tagged) {
    completion.flags |= mark_.flags;
    completion.src_qp = mark_.context;
    completion.tag = mark_.tag;
  }
  active_ = false;
  if (!ok || !mark_.fetches) slots().end();
  const Outcome outcome = context_.complete_receive(slots(), completion, solicited, now);
  if (outcome == Outcome::kFailed && ok) {  // the queue was full: the program never learns of it
    if (mark_.fetches) slots().end();
    forget_unexpected();
  }
  return outcome;
}

void ReceiveSlot::drop() {
  if (active_ && context_.srq != nullptr) {
    slots().give_back(1);
    forget_unexpected();
  }
  active_ = false;
}

void ReceiveSlot::fail(WcStatus status, Cause cause, Instant now) {
  if (active_) (void)end(status, cause, now);  // the QP has failed already
}

Outcome ReceiveSlot::end(WcStatus status, Cause cause, Instant now) {
  forget_unexpected();
  if (cause == Cause::kReceiveTooShort) context_.counters().resp_local_length_error++;
  Completion completion;
  completion.opcode = WcOpcode::kRecv;
  completion.status = status;
  completion.cause = cause;
  constexpr bool kSolicited = true;  // errors also wake programs that wait for solicited completions
  return complete(completion, kSolicited, now);
}

Outcome ReceiveSlot::drop_too_long(Instant now) {
  context_.counters().rx_drop_receive_too_short++;
  context_.events.on_too_long_dropped();
  return context_.srq != nullptr ? end(WcStatus::kLocLenErr, Cause::kReceiveTooShort, now) : Outcome::kGoesOn;
}

void ReceiveSlot::flush(Instant now) {
  fail(WcStatus::kWrFlushErr, Cause::kFlushed, now);
  while (!own_.empty()) {
    take();
    fail(WcStatus::kWrFlushErr, Cause::kFlushed, now);
  }
}

}  // namespace uroce
