#include "sim/event_queue.h"

#include <algorithm>

#include "base/check.h"

namespace uroce::sim {

EventQueue::~EventQueue() {
  while (!empty()) Frame::adopt(take().frame);
}

/// Moves the events of a slot to where they belong with the new base, which is always at a lower level.
void EventQueue::spread(unsigned level, uint64_t number) {
  uint32_t index = levels_[level].slots[number].head;
  levels_[level].slots[number] = {};
  mark(level, number, false);
  while (index != kNone) {
    const uint32_t following = nodes_[index].next;
    nodes_[index].next = kNone;
    insert(index);
    index = following;
  }
}

/// Takes all events of the next instant. What they schedule for the same instant goes into the slot, and comes after
/// them.
void EventQueue::take_slot() {
  ensure(next_ >= now_, "time does not go back");
  now_ = next_;
  Slot& slot = bring_down(static_cast<uint64_t>(next_.ns));
  ready_.clear();
  ready_at_ = 0;
  for (uint32_t index = slot.head; index != kNone;) {
    Node& node = nodes_[index];
    ready_.push_back(node.due());
    if (ready_.size() <= kAhead) prefetch(ready_.back());
    const uint32_t following = node.next;
    node.next = free_;
    free_ = index;
    index = following;
  }
  ensure(!ready_.empty(), "the instant that comes next has events");
  slot = {};
  mark(0, base_ & 0xFF, false);
}

/// Prefetches the first events of the next instant, if that is near.
void EventQueue::prefetch_slot() const {
  const auto when = static_cast<uint64_t>(next_.ns);
  if (level_of(when, base_) != 0) return;
  uint32_t index = levels_[0].slots[when & 0xFF].head;
  for (unsigned i = 0; i < 4 && index != kNone; i++) {
    prefetch(nodes_[index].due());
    index = nodes_[index].next;
  }
}

/// The earliest event lies in the first slot of the lowest level that has any.
Instant EventQueue::find_next() const {
  for (unsigned level = 0; level < kLevels; level++) {
    for (unsigned word = 0; word < 4; word++) {
      if (levels_[level].used[word] == 0) continue;
      const unsigned number = word * 64 + static_cast<unsigned>(std::countr_zero(levels_[level].used[word]));
      uint32_t index = levels_[level].slots[number].head;
      Instant first = nodes_[index].when;
      if (level == 0) return first;
      for (; index != kNone; index = nodes_[index].next) first = std::min(first, nodes_[index].when);
      return first;
    }
  }
  return Instant::never();
}

}  // namespace uroce::sim
