// The build asks for 64-bit file offsets, which makes `mmap` another name for `mmap64`. Both are here.
#undef _FILE_OFFSET_BITS
#include "failing_memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

namespace {

// Nothing here may need memory or a constructor.
constinit std::atomic<long> left{0};  // requests until one fails; 0: none does
constinit std::atomic<bool> all_after{false};
constinit std::atomic<bool> has_failed{false};
constinit std::atomic<int64_t> in_use{0};

bool fails() {
  long n = left.load(std::memory_order_relaxed);
  do {
    if (n == 0) return false;
    if (n == 1 && all_after) break;
  } while (!left.compare_exchange_weak(n, n - 1));
  if (n != 1) return false;
  has_failed = true;
  errno = ENOMEM;
  return true;
}

void* counted(void* memory) {
  if (memory != nullptr) in_use++;
  return memory;
}

}  // namespace

extern "C" {

// NOLINTBEGIN: glibc's names
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);
// NOLINTEND

#define FIRST __attribute__((visibility("default")))

FIRST void* malloc(size_t bytes) { return fails() ? nullptr : counted(__libc_malloc(bytes)); }
FIRST void* calloc(size_t count, size_t bytes) { return fails() ? nullptr : counted(__libc_calloc(count, bytes)); }
FIRST void* realloc(void* memory, size_t bytes) {
  if (fails()) return nullptr;
  void* const moved = __libc_realloc(memory, bytes);
  return memory == nullptr ? counted(moved) : moved;
}
FIRST void* memalign(size_t alignment, size_t bytes) {
  return fails() ? nullptr : counted(__libc_memalign(alignment, bytes));
}
FIRST void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
FIRST int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory != nullptr ? 0 : ENOMEM;
}
FIRST void free(void* memory) {
  if (memory != nullptr) in_use--;
  __libc_free(memory);
}

FIRST void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if (fails()) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, flags, fd, offset));
}
FIRST void* mmap64(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  return mmap(at, bytes, protection, flags, fd, offset);
}

FIRST int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return fails() ? EAGAIN : real(thread, attributes, start, argument);  // as when a stack cannot be allocated
}

}  // extern "C"

namespace verbs_test {

void FailingMemory::begin(long nth, Mode mode) {
  has_failed = false;
  all_after = mode == kFromThenOn;
  left = nth;
}
void FailingMemory::end() { left = 0; }
bool FailingMemory::failed() const { return has_failed; }
bool FailingMemory::fits(int error) const { return error == ENOMEM; }

int64_t pieces_in_use() { return in_use; }

}  // namespace verbs_test
