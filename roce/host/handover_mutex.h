// The lock that passes an engine between threads.
//
// Taking it uncontended is one compare-and-swap. A waiter spins for a few microseconds, as turns are short, and then
// sleeps: on a machine with few cores the holder may not even be running. A thread that polls in a loop takes the lock
// again at once each time, so a waiter that has slept in vain claims the lock, and is then given it directly.
#pragma once

#include <atomic>
#include <cstdint>

#include "uroce/time.h"

namespace uroce {

class HandoverMutex {
 public:
  void lock() {
    uint32_t expected = 0;
    if (!word_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) lock_contended();
  }
  /// For observers, which cannot claim the lock: tries again and again for `patience`, and returns false when the lock
  /// was never free.
  bool try_lock_for(Duration patience);
  void unlock() {
    if (claim_.load(std::memory_order_relaxed) == kClaimed) {
      hand_over();
    } else if (word_.exchange(0, std::memory_order_release) != kHeld) {
      wake();
    }
  }
  /// To be called in the child of a fork, where the thread that held the lock does not exist.
  void reset_after_fork() {
    word_.store(0);
    claim_.store(kNoClaim);
  }

 private:
  static constexpr uint32_t kHeld = 1;
  static constexpr uint32_t kHeldWaiters = 3;  // held, and threads may sleep
  static constexpr uint32_t kHandedOver = 7;   // held, for the thread that claimed it
  static constexpr uint32_t kNoClaim = 0;
  static constexpr uint32_t kClaimed = 1;  // a waiter asks for the lock to be handed over
  static constexpr uint32_t kGranted = 2;

  void lock_contended();
  bool spin();
  void hand_over();
  void wake();

  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> claim_{kNoClaim};
};

}  // namespace uroce
