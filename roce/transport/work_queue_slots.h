// Counts how many slots of a work queue are taken.
#pragma once

#include <cstdint>
#include <utility>

#include "base/check.h"

namespace uroce {

/// A post takes a slot. The slot is free again when the completion of that work request, or a later one of the same
/// queue, was polled: as with hardware, whose driver knows only what it polled. Work requests that end without a
/// completion (unsignalled sends, completions lost in an overrun) keep their slots until a later one is reported and
/// polled; a program that never asks for a completion fills the queue.
class WorkQueueSlots {
 public:
  explicit WorkQueueSlots(uint32_t capacity) : capacity_(capacity) {}

  uint32_t free() const { return capacity_ - taken_; }
  uint32_t taken() const { return taken_; }
  bool full() const { return taken_ >= capacity_; }
  void take() {
    ensure(!full(), "a slot of the work queue is free");
    taken_++;
  }
  /// A work request has ended.
  void end() {
    ended_++;
    ensure(ended_ <= taken_, "what ended had a slot");
  }
  /// The slots of all work requests that have ended and were not reported: a completion that is added now gives them
  /// back when it is polled.
  uint32_t report() { return std::exchange(ended_, 0u); }
  void give_back(uint32_t slots) {
    ensure(slots <= taken_, "slots that are given back were taken");
    taken_ -= slots;
  }
  /// The queue has another size, with room for what is taken.
  void resize(uint32_t capacity) {
    ensure(taken_ <= capacity, "what is taken fits the new size");
    capacity_ = capacity;
  }
  /// All are free. No completion may be left that would give some back.
  void reset() { taken_ = ended_ = 0; }

 private:
  uint32_t capacity_;
  uint32_t taken_ = 0;
  uint32_t ended_ = 0;  // and not reported yet
};

}  // namespace uroce
