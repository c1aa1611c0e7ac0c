// Which thread owns something that has one owner at a time. It does not wait and does not lock: whoever passes the
// thing on does that, and notes here who has it, so that everybody who uses it can be asked whether he is the one.
#pragma once

#include <atomic>

namespace uroce {

class Owner {
 public:
  void take() { thread_.store(self(), std::memory_order_relaxed); }
  void leave() { thread_.store(nullptr, std::memory_order_relaxed); }
  /// The calling thread took it and did not leave it since.
  bool is_me() const { return thread_.load(std::memory_order_relaxed) == self(); }

 private:
  /// Something that each thread has for itself.
  static const void* self() {
    [[gnu::tls_model("initial-exec")]] static thread_local char mark;
    return &mark;
  }

  std::atomic<const void*> thread_{nullptr};
};

}  // namespace uroce
