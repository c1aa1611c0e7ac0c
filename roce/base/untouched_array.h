// An array of fixed size whose memory is not touched before its elements are written; several may share one block.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace uroce {

/// Memory for several arrays, taken from the system at once. The cost of large pieces of fresh memory is the system's
/// work for each piece, whatever its size.
class UntouchedBlock {
 public:
  /// The bytes of one array: the block needs the sum over all its arrays.
  template <typename T>
  static constexpr size_t bytes_for(size_t items) {
    return (items * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  }

  UntouchedBlock() = default;
  explicit UntouchedBlock(size_t bytes)
      : memory_(static_cast<std::byte*>(::operator new(bytes))), next_(memory_), left_(bytes) {}
  /// `borrowed`: the caller's memory, which outlives the block; nullptr: the block allocates its own.
  UntouchedBlock(size_t bytes, void* borrowed) : UntouchedBlock(borrowed != nullptr ? 0 : bytes) {
    if (borrowed == nullptr) return;
    next_ = static_cast<std::byte*>(borrowed);
    left_ = bytes;
  }
  UntouchedBlock(UntouchedBlock&& other) noexcept { *this = std::move(other); }
  UntouchedBlock& operator=(UntouchedBlock&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(next_, other.next_);
    std::swap(left_, other.left_);
    return *this;
  }
  ~UntouchedBlock() { ::operator delete(memory_); }

  /// The next `items` elements.
  template <typename T>
  T* take(size_t items) {
    static_assert(alignof(T) <= kAlignment);
    const size_t bytes = bytes_for<T>(items);
    ensure(bytes <= left_, "a block has room for all its arrays");
    left_ -= bytes;
    return reinterpret_cast<T*>(std::exchange(next_, next_ + bytes));
  }

 private:
  static constexpr size_t kAlignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

  std::byte* memory_ = nullptr;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
};

/// Elements are not initialised, so a queue of the largest size costs only as much time and memory as the part of it
/// that is used.
template <typename T>
class UntouchedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  UntouchedArray() = default;
  explicit UntouchedArray(size_t size) : own_(std::allocator<T>().allocate(size)), items_(own_) {}
  /// Takes its memory from a block that outlives the array.
  UntouchedArray(UntouchedBlock& block, size_t size) : items_(block.take<T>(size)) {}
  UntouchedArray(UntouchedArray&& other) noexcept { *this = std::move(other); }
  UntouchedArray& operator=(UntouchedArray&& other) noexcept {
    std::swap(own_, other.own_);
    std::swap(items_, other.items_);
    return *this;
  }
  ~UntouchedArray() { ::operator delete(own_); }

  T& operator[](size_t i) { return items_[i]; }
  const T& operator[](size_t i) const { return items_[i]; }

 private:
  T* own_ = nullptr;  // nullptr: it is in a block
  T* items_ = nullptr;
};

}  // namespace uroce
