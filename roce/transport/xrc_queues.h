// The shared receive queues that peers name by number: those of XRC.
//
// A number is 24 bits: the place in the table and a generation, so that the number of a queue that is gone does not
// come back soon. 0 is never given.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace uroce {

class SharedReceiveQueue;

class XrcQueues {
 public:
  /// `random`, which outlives the table, chooses where generations begin; `queues_max` up to 2^16.
  XrcQueues(uint32_t queues_max, RandomSource& random) : queues_max_(queues_max), random_(random) {}

  /// Gives the queue a number. 0: the table is full.
  uint32_t add(SharedReceiveQueue& queue);
  void remove(const SharedReceiveQueue& queue);

  /// nullptr: there is none of that number.
  SharedReceiveQueue* find(uint32_t number) const {
    const uint32_t place = number & kPlaceMask;
    if (place >= entries_.size() || entries_[place].number != number) return nullptr;
    return entries_[place].queue;
  }

 private:
  static constexpr uint32_t kPlaceMask = 0xFFFF;
  static constexpr uint32_t kNumberMask = 0xFFFFFF;

  struct Entry {
    uint32_t number = 0;
    SharedReceiveQueue* queue = nullptr;
  };

  const uint32_t queues_max_;
  RandomSource& random_;
  std::vector<Entry> entries_;  // the first is not used; grows with the queues
};

}  // namespace uroce
