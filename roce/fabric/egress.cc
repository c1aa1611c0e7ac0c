#include "fabric/egress.h"

#include "base/check.h"

namespace uroce::fabric {

uint32_t FrameQueues::take(const QueuedFrame& queued) {
  ensure(static_cast<bool>(queued.frame), "a place in the queues is for a frame");
  if (used_ >= max_frames_) return kNone;
  used_++;
  if (free_ == kNone) {
    ensure(used_ == nodes_.size() + 1, "the queues grow when no place is free");
    nodes_.push_back(queued);
    return static_cast<uint32_t>(nodes_.size() - 1);
  }
  const uint32_t index = free_;
  free_ = nodes_[index].next;
  nodes_[index] = queued;
  return index;
}

EgressScheduler::EgressScheduler(const PriorityConfigs& priorities, uint32_t quantum_bytes) {
  for (unsigned i = 0; i < kPriorities; i++) {
    quantum_[i] = uint64_t{priorities[i].weight} * quantum_bytes;
    ensure(priorities[i].weight == 0 || quantum_[i] != 0, "a queue with a weight gets something in its turn");
    if (priorities[i].weight == 0) strict_ = static_cast<uint8_t>(strict_ | priority_bit(i));
  }
}

void EgressScheduler::push(FrameQueues& queues, unsigned priority, uint32_t index) {
  Queue& q = queues_[priority];
  queues[index].next = FrameQueues::kNone;
  if (q.head == FrameQueues::kNone) {
    q.head = index;
    waiting_ = static_cast<uint8_t>(waiting_ | priority_bit(priority));
  } else {
    queues[q.tail].next = index;
  }
  q.tail = index;
  q.bytes += queues[index].frame.bytes;
}

unsigned EgressScheduler::pick(const FrameQueues& queues, uint8_t blocked) {
  const auto ready = static_cast<uint8_t>(waiting_ & ~blocked);
  if (ready == 0) return kPriorities;
  const auto strict = static_cast<uint8_t>(ready & strict_);
  if (strict != 0) return static_cast<unsigned>(std::bit_width(strict)) - 1;
  // The loop ends, because every round adds at least one quantum to a queue that is ready, and a frame is at most a few
  // quanta long.
  while (true) {
    if ((ready >> current_ & 1) != 0 && deficit_[current_] >= queues[queues_[current_].head].frame.bytes) {
      return current_;
    }
    do {
      current_ = (current_ + 1) % kPriorities;
    } while ((ready >> current_ & 1) == 0);
    deficit_[current_] += quantum_[current_];
  }
}

uint32_t EgressScheduler::pop(FrameQueues& queues, unsigned priority) {
  Queue& q = queues_[priority];
  ensure(q.head != FrameQueues::kNone, "the queue that was picked holds a frame");
  const uint32_t index = q.head;
  const uint32_t bytes = queues[index].frame.bytes;
  q.head = queues[index].next;
  // In a long queue the beginning of the next frame and the node after it are no longer in the cache, and will be
  // needed soon.
  if (q.head != FrameQueues::kNone) {
    const QueuedFrame& next = queues[q.head];
    __builtin_prefetch(next.frame.data, 1);
    if (next.next != FrameQueues::kNone) __builtin_prefetch(&queues[next.next]);
  }
  q.bytes -= bytes;
  if ((strict_ >> priority & 1) == 0) deficit_[priority] -= deficit_[priority] < bytes ? deficit_[priority] : bytes;
  if (q.head == FrameQueues::kNone) {
    ensure(q.bytes == 0, "a queue holds the bytes of its frames");
    q.tail = FrameQueues::kNone;
    deficit_[priority] = 0;
    waiting_ = static_cast<uint8_t>(waiting_ & ~priority_bit(priority));
  }
  return index;
}

}  // namespace uroce::fabric
