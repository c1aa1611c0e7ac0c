#include "transport/receive_queue.h"

#include "transport/observer.h"

namespace uroce {

namespace {

size_t bytes_for(uint32_t max_wr, uint32_t max_sge) {
  const size_t slots = Ring<RecvWqe>::slots_for(max_wr);
  return UntouchedBlock::bytes_for<RecvWqe>(slots) + UntouchedBlock::bytes_for<Sge>(slots * max_sge);
}

}  // namespace

ReceiveQueue::ReceiveQueue(uint32_t max_wr, uint32_t max_sge)
    : memory_(bytes_for(max_wr, max_sge)),
      ring_(max_wr, memory_),
      slots_(max_wr),
      max_sge_(max_sge),
      sges_(memory_, size_t{ring_.slots()} * max_sge) {}

PostResult ReceiveQueue::post(const RecvWr& wr) {
  if (wr.num_sge > max_sge_) return PostResult::kTooManySges;
  if (slots_.full()) return PostResult::kQueueFull;
  Sge* sges = &sges_[size_t{ring_.slot(ring_.tail())} * max_sge_];
  uint64_t total = 0;
  for (uint32_t i = 0; i < wr.num_sge; i++) {
    sges[i] = wr.sges[i];
    total += wr.sges[i].length;
  }
  ring_.push({wr.wr_id, sges, wr.num_sge, total});
  slots_.take();
  return PostResult::kOk;
}

void SharedReceiveQueue::pop() {
  queue_.pop();
  if (limit_ != 0 && queue_.size() < limit_) {
    limit_ = 0;
    observer_.on_srq_limit(*this);
  }
}

}  // namespace uroce
