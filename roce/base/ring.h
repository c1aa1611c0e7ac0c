// A first-in, first-out queue of fixed capacity, sized once.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "base/check.h"
#include "base/untouched_array.h"

namespace uroce {

/// For one thread at a time. Positions count up for ever (and wrap at 2^32), so an element keeps its position while it
/// is queued: `at(position)` is valid for positions in [head(), tail()). The memory of trivially copyable elements is
/// not touched before they are pushed.
template <typename T>
class Ring {
 public:
  explicit Ring(uint32_t capacity)
      : capacity_(capacity), mask_(slots_for(capacity) - 1u), items_(make(slots_for(capacity))) {}
  /// With its elements, `slots_for(capacity)` plain ones, in a block that outlives the ring.
  Ring(uint32_t capacity, UntouchedBlock& block)
      : capacity_(capacity), mask_(slots_for(capacity) - 1u), items_(block, slots_for(capacity)) {}

  uint32_t capacity() const { return capacity_; }
  uint32_t size() const { return tail_ - head_; }
  bool empty() const { return head_ == tail_; }
  bool full() const { return size() >= capacity_; }
  uint32_t head() const { return head_; }
  uint32_t tail() const { return tail_; }

  T& at(uint32_t position) { return items_[position & mask_]; }
  const T& at(uint32_t position) const { return items_[position & mask_]; }
  T& front() { return at(head_); }
  const T& front() const { return at(head_); }

  /// The element that the next `push()` will publish; fill it in place. The ring must not be full.
  T& next_slot() { return at(tail_); }
  void push() {
    ensure(!full(), "there is room in the ring");
    tail_++;
  }
  void push(const T& item) {
    ensure(!full(), "there is room in the ring");
    at(tail_) = item;
    tail_++;
  }
  void pop() {
    ensure(!empty(), "there is something in the ring");
    head_++;
  }
  void clear() { head_ = tail_; }
  /// Drops the newest elements, so that `position` becomes the tail.
  void truncate(uint32_t position) {
    ensure(position - head_ <= size(), "what is dropped was in the ring");
    tail_ = position;
  }
  /// The storage slot that a position uses, for tables that run beside the ring and have `slots()` entries.
  uint32_t slot(uint32_t position) const { return position & mask_; }
  uint32_t slots() const { return mask_ + 1u; }
  static constexpr uint32_t slots_for(uint32_t capacity) { return std::bit_ceil(capacity ? capacity : 1u); }

 private:
  static constexpr bool kPlain = std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>;
  using Items = std::conditional_t<kPlain, UntouchedArray<T>, std::unique_ptr<T[]>>;
  static Items make(uint32_t slots) {
    if constexpr (kPlain) {
      return Items(slots);
    } else {
      return Items(new T[slots]());
    }
  }

  uint32_t capacity_;
  uint32_t mask_;
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
  Items items_;
};

}  // namespace uroce
