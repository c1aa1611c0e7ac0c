// An array of fixed size whose memory nobody touches before its elements are written.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace uroce {

/// Elements are not initialised, so a queue of the largest size costs only as much time and memory as the part of it
/// that is used.
template <typename T>
class UntouchedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

 public:
  UntouchedArray() = default;
  explicit UntouchedArray(size_t size) : items_(std::allocator<T>().allocate(size)) {}
  UntouchedArray(UntouchedArray&& other) noexcept : items_(std::exchange(other.items_, nullptr)) {}
  UntouchedArray& operator=(UntouchedArray&& other) noexcept {
    std::swap(items_, other.items_);
    return *this;
  }
  ~UntouchedArray() { ::operator delete(items_); }

  T& operator[](size_t i) { return items_[i]; }
  const T& operator[](size_t i) const { return items_[i]; }

 private:
  T* items_ = nullptr;
};

}  // namespace uroce
