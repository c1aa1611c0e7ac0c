#include "engine/timer_queue.h"

#include "base/check.h"

namespace uroce {

TimerQueue::TimerQueue(uint32_t owners_max) : position_(owners_max, kNone) { heap_.reserve(owners_max); }

void TimerQueue::place(uint32_t index, const Entry& entry) {
  ensure(index < heap_.size(), "a timer lies in the heap");
  heap_[index] = entry;
  position_[entry.owner] = index;
}

void TimerQueue::sift_up(uint32_t index) {
  const Entry entry = heap_[index];
  while (index > 0) {
    const uint32_t parent = (index - 1) / 2;
    if (heap_[parent].when <= entry.when) break;
    place(index, heap_[parent]);
    index = parent;
  }
  place(index, entry);
}

void TimerQueue::sift_down(uint32_t index) {
  const Entry entry = heap_[index];
  const auto size = static_cast<uint32_t>(heap_.size());
  for (;;) {
    uint32_t child = 2 * index + 1;
    if (child >= size) break;
    if (child + 1 < size && heap_[child + 1].when < heap_[child].when) child++;
    if (entry.when <= heap_[child].when) break;
    place(index, heap_[child]);
    index = child;
  }
  place(index, entry);
}

/// It is not armed, or for later.
void TimerQueue::arm_earlier(uint32_t owner, Instant when) {
  const uint32_t index = position_[owner];
  if (index == kNone) {
    heap_.push_back({when, owner});
    sift_up(static_cast<uint32_t>(heap_.size()) - 1);
  } else {
    heap_[index].when = when;
    sift_up(index);
  }
}

void TimerQueue::remove(uint32_t index) {
  ensure(position_[heap_[index].owner] == index, "a timer knows its place in the heap");
  position_[heap_[index].owner] = kNone;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (index == heap_.size()) return;
  place(index, last);
  sift_up(index);
  sift_down(position_[last.owner]);
}

void TimerQueue::cancel(uint32_t owner) {
  if (position_[owner] != kNone) remove(position_[owner]);
}

uint32_t TimerQueue::pop_due(Instant now) {
  if (heap_.empty() || now < heap_.front().when) return kNone;
  const uint32_t owner = heap_.front().owner;
  remove(0);
  return owner;
}

}  // namespace uroce
