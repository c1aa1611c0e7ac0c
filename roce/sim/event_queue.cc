#include "sim/event_queue.h"

#include <algorithm>

namespace uroce::sim {

/// Moves a slot's events to where they belong from the new base on: all of them further down.
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
