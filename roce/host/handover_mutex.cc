#include "host/handover_mutex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "base/kept_errno.h"

namespace uroce {
namespace {

constexpr int kSpins = 200;

void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  // The timeout limits the delay when a wake-up is lost between claim and sleep.
  timespec timeout{0, 1'000'000};
  const KeptErrno kept;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, &timeout, nullptr, 0);
}

}  // namespace

bool HandoverMutex::spin() {
  for (int i = 0; i < kSpins; i++) {
    uint32_t expected = 0;
    if (word_.load(std::memory_order_relaxed) == 0 &&
        word_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) {
      return true;
    }
    cpu_pause();
  }
  return false;
}

bool HandoverMutex::try_lock_for(Duration patience) {
  constexpr Duration kPause = microseconds(100);
  for (int64_t looks = patience.ns / kPause.ns; !spin(); looks--) {
    if (looks <= 0) return false;
    const timespec pause{0, kPause.ns};
    nanosleep(&pause, nullptr);
  }
  return true;
}

void HandoverMutex::lock_contended() {
  if (spin()) return;
  bool claimed = false;
  while (true) {
    if (claimed && claim_.load(std::memory_order_acquire) == kGranted) {
      word_.store(kHeldWaiters, std::memory_order_relaxed);  // others may still sleep
      claim_.store(kNoClaim, std::memory_order_relaxed);
      return;
    }
    if ((word_.exchange(kHeldWaiters, std::memory_order_acquire) & kHeld) == 0) {
      if (claimed) claim_.store(kNoClaim, std::memory_order_relaxed);
      return;
    }
    futex_wait(word_, kHeldWaiters);
    uint32_t expected = kNoClaim;
    if (!claimed) claimed = claim_.compare_exchange_strong(expected, kClaimed, std::memory_order_relaxed);
  }
}

void HandoverMutex::hand_over() {
  // The grant is written last: from then on the claimant may own the lock, and even release it, before this thread goes
  // on. If the word were written after that, it would say that the lock is held although nobody holds it.
  word_.store(kHandedOver, std::memory_order_relaxed);
  claim_.store(kGranted, std::memory_order_release);
  // Wakes all waiters: only the claimant goes on, the others look and sleep again.
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void HandoverMutex::wake() {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word_), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace uroce
