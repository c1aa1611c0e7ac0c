// Notes which thread owns something that has one owner at a time, so that code that uses the thing can check that its
// own thread is the owner. `LockHolder` neither waits nor locks: that is up to the code that passes the thing from
// thread to thread.
#pragma once

#include <atomic>

namespace uroce {

class LockHolder {
 public:
  void take() { thread_.store(self(), std::memory_order_relaxed); }
  void leave() { thread_.store(nullptr, std::memory_order_relaxed); }
  /// True when the calling thread was the last to call `take` and has not called `leave` since.
  bool is_me() const { return thread_.load(std::memory_order_relaxed) == self(); }

 private:
  /// An address that is different in each thread.
  static const void* self() {
    [[gnu::tls_model("initial-exec")]] static thread_local char mark;
    return &mark;
  }

  std::atomic<const void*> thread_{nullptr};
};

}  // namespace uroce
