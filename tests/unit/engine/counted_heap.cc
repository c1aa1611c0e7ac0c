#include "counted_heap.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace uroce::test {

Heap heap;

}  // namespace uroce::test

namespace {

using uroce::test::heap;

void* allocate(std::size_t bytes, std::size_t alignment) {
  heap.all++;
  heap.bytes += bytes;
  if (heap.watched) {
    const uint64_t number = heap.asked++;
    if (number == heap.fails || (heap.all_after && number > heap.fails)) throw std::bad_alloc();
  }
  void* memory =
      std::aligned_alloc(alignment, (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  heap.live++;
  return memory;
}

void release(void* memory) {
  if (memory == nullptr) return;
  heap.live--;
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
