// One deadline per QP, kept lazily.
//
// A QP's timer is pushed back with every ACK, far more often than it fires. So a deadline that moves later costs
// nothing: the entry stays where it is, and its owner is asked for its deadline again when it is popped.
#pragma once

#include <cstdint>
#include <vector>

#include "uroce/time.h"

namespace uroce {

class TimerQueue {
 public:
  /// `owners_max`: owners are numbers below it.
  explicit TimerQueue(uint32_t owners_max);

  /// Makes sure that `owner` is popped no later than `when`.
  void arm(uint32_t owner, Instant when) {
    const uint32_t index = position_[owner];
    if (index == kNone ? when == Instant::never() : when >= heap_[index].when) return;
    arm_earlier(owner, when);
  }
  void cancel(uint32_t owner);

  /// The next owner whose entry is due at `now`, removed; kNone when there is none.
  uint32_t pop_due(Instant now);
  Instant next() const { return heap_.empty() ? Instant::never() : heap_.front().when; }

  static constexpr uint32_t kNone = 0xFFFFFFFF;

 private:
  struct Entry {
    Instant when;
    uint32_t owner;
  };
  void arm_earlier(uint32_t owner, Instant when);
  void place(uint32_t index, const Entry& entry);
  void sift_up(uint32_t index);
  void sift_down(uint32_t index);
  void remove(uint32_t index);

  std::vector<Entry> heap_;         // binary min-heap, capacity fixed
  std::vector<uint32_t> position_;  // owner -> index in heap_, or kNone
};

}  // namespace uroce
