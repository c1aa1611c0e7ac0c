#include "transport/completion_queue.h"

#include <utility>

#include "transport/observer.h"
#include "transport/qp_context.h"

namespace uroce {

CompletionQueue::CompletionQueue(uint32_t capacity, Observer& observer, void* user)
    : ring_(capacity), observer_(observer), user_(user) {}

uint32_t CompletionQueue::poll(std::span<Completion> out) {
  auto to = out.begin();
  return drain(static_cast<uint32_t>(out.size()), [&to](const Completion& completion) { *to++ = completion; });
}

void CompletionQueue::arm(bool solicited_only) {
  if (armed_ != Armed::kAny) armed_ = solicited_only ? Armed::kSolicited : Armed::kAny;
}

bool CompletionQueue::push(const Completion& completion, bool solicited, WorkQueueSlots& queue) {
  if (ring_.full()) {
    if (!std::exchange(overrun_, true)) observer_.on_cq_error(*this);
    return false;
  }
  ring_.push({completion, queue.report(), &queue});
  const bool wakes =
      armed_ == Armed::kAny || (armed_ == Armed::kSolicited && (solicited || completion.status != WcStatus::kSuccess));
  if (wakes) {
    armed_ = Armed::kNo;
    observer_.on_cq_event(*this);
  }
  return true;
}

void CompletionQueue::remove(uint32_t qpn) {
  uint32_t kept = ring_.head();
  for (uint32_t at = ring_.head(); at != ring_.tail(); at++) {
    const Entry& entry = ring_.at(at);
    if (entry.completion.qp_num == qpn) {
      entry.queue->give_back(entry.slots);
    } else {
      ring_.at(kept++) = entry;
    }
  }
  ring_.truncate(kept);
}

bool CompletionQueue::resize(uint32_t capacity) {
  if (capacity < ring_.size()) return false;
  Ring<Entry> larger(capacity);
  for (; !ring_.empty(); ring_.pop()) larger.push(ring_.front());
  ring_ = std::move(larger);
  return true;
}

void QpContext::complete(CompletionQueue& cq, WorkQueueSlots& queue, Completion& completion, bool solicited,
                         Instant now) {
  completion.qp_num = qpn;
  completion.timestamp_ns = now.ns;
  if (completion.status != WcStatus::kSuccess) {
    const bool receive = completion.opcode >= WcOpcode::kRecv;
    if (completion.status == WcStatus::kWrFlushErr) {
      (receive ? counters().resp_cqe_flush_error : counters().req_cqe_flush_error)++;
    } else {
      (receive ? counters().resp_cqe_error : counters().req_cqe_error)++;
    }
    env.observer.on_error_completion(qp, completion);
  }
  if (cq.push(completion, solicited, queue)) return;
  failed = true;
  if (!std::exchange(completion_lost, true)) env.observer.on_qp_event(qp, AsyncEvent::kQpFatal);
}

}  // namespace uroce
