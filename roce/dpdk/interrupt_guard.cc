#include "dpdk/interrupt_guard.h"

#include <atomic>
#include <cerrno>

#include <rte_interrupts.h>

namespace uroce {
namespace {

std::atomic<EngineLockable*> g_lockable{nullptr};
std::atomic<bool> g_caught{false};
thread_local EngineLockable* t_owned = nullptr;

}  // namespace

void guard_interrupt_thread(EngineLockable& lockable) { g_lockable.store(&lockable, std::memory_order_release); }

bool interrupt_thread_is_guarded() { return g_caught.load(std::memory_order_relaxed); }

int guarded_epoll_wait(EpollWait wait, int epoll_fd, epoll_event* events, int events_max, int timeout_ms) {
  if (rte_thread_is_intr() == 0) return wait(epoll_fd, events, events_max, timeout_ms);
  g_caught.store(true, std::memory_order_relaxed);
  if (t_owned != nullptr) {
    EngineLockable* owned = t_owned;
    t_owned = nullptr;
    owned->release();
  }
  const int count = wait(epoll_fd, events, events_max, timeout_ms);
  const int saved_errno = errno;
  if (EngineLockable* lockable = g_lockable.load(std::memory_order_acquire)) {
    lockable->acquire();
    t_owned = lockable;
  }
  errno = saved_errno;
  return count;
}

}  // namespace uroce
