// A static object that is never destroyed, because it is used while the process exits, and whose first use needs no
// memory.
#pragma once

#include <cstddef>
#include <new>

namespace uroce {

template <typename T>
class Immortal {
 public:
  Immortal() { new (room_) T; }
  Immortal(const Immortal&) = delete;
  Immortal& operator=(const Immortal&) = delete;
  T& operator*() { return *std::launder(reinterpret_cast<T*>(room_)); }

 private:
  alignas(T) std::byte room_[sizeof(T)];
};

}  // namespace uroce
