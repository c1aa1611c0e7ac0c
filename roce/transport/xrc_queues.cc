#include "transport/xrc_queues.h"

#include "base/check.h"
#include "transport/receive_queue.h"

namespace uroce {

uint32_t XrcQueues::add(SharedReceiveQueue& queue) {
  if (entries_.empty()) entries_.emplace_back();
  uint32_t place = 1;
  while (place < entries_.size() && entries_[place].queue != nullptr) place++;
  if (place > queues_max_ || place > kPlaceMask) return 0;
  if (place == entries_.size()) entries_.push_back({((random_.next_u32() << 16) | place) & kNumberMask, nullptr});
  Entry& entry = entries_[place];
  entry.number = (entry.number + kPlaceMask + 1) & kNumberMask;
  entry.queue = &queue;
  return entry.number;
}

void XrcQueues::remove(const SharedReceiveQueue& queue) {
  Entry& entry = entries_[queue.xrc().number & kPlaceMask];
  ensure(entry.queue == &queue, "a queue is found by its number");
  entry.queue = nullptr;
}

}  // namespace uroce
