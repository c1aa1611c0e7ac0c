#include "transport/receive_queue.h"

#include <utility>

#include "transport/observer.h"
#include "transport/tag_matching.h"

namespace uroce {

size_t ReceiveQueue::bytes_for(uint32_t max_wr, uint32_t max_sge) {
  const size_t slots = Ring<Posted>::slots_for(max_wr);
  return UntouchedBlock::bytes_for<Posted>(slots) + UntouchedBlock::bytes_for<Sge>(slots * max_sge);
}

ReceiveQueue::ReceiveQueue(uint32_t max_wr, uint32_t max_sge, void* memory)
    : memory_(bytes_for(max_wr, max_sge), memory),
      ring_(max_wr, memory_),
      slots_(max_wr),
      max_sge_(max_sge),
      sges_(memory_, size_t{ring_.slots()} * max_sge) {}

PostResult ReceiveQueue::post(const RecvWr& wr) {
  if (wr.num_sge > max_sge_) return PostResult::kTooManySges;
  if (slots_.full()) return PostResult::kQueueFull;
  Sge* const sges = sges_of(ring_.tail());
  for (uint32_t i = 0; i < wr.num_sge; i++) sges[i] = wr.sges[i];
  ring_.push({wr.wr_id, wr.num_sge});
  slots_.take();
  return PostResult::kOk;
}

bool ReceiveQueue::resize(uint32_t max_wr, void* memory) {
  if (max_wr < slots_.taken()) return false;
  ReceiveQueue other(max_wr, max_sge_, memory);
  for (; !ring_.empty(); ring_.pop()) {
    const RecvWqe wqe = front();
    other.post({wqe.wr_id, wqe.sges, wqe.num_sge});
  }
  std::swap(memory_, other.memory_);
  std::swap(ring_, other.ring_);
  std::swap(sges_, other.sges_);
  slots_.resize(max_wr);
  return true;
}

SharedReceiveQueue::SharedReceiveQueue(PdId pd, uint32_t max_wr, uint32_t max_sge, Observer& observer, void* user,
                                       void* memory)
    : queue_(max_wr, max_sge, memory), pd_(pd), observer_(observer), user_(user) {}

SharedReceiveQueue::~SharedReceiveQueue() = default;

void SharedReceiveQueue::set_tags(std::unique_ptr<TagMatching> tags) { tags_ = std::move(tags); }

void SharedReceiveQueue::pop() {
  queue_.pop();
  if (limit_ != 0 && queue_.size() < limit_) {
    limit_ = 0;
    observer_.on_srq_limit(*this);
  }
}

}  // namespace uroce
