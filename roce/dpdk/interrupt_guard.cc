#include "dpdk/interrupt_guard.h"

#include <atomic>
#include <cerrno>
#include <utility>

#include <rte_interrupts.h>

namespace uroce {
namespace {

std::atomic<EngineLockable*> g_lockable{nullptr};
std::atomic<bool> g_caught{false};
thread_local EngineLockable* t_owned = nullptr;

}  // namespace

void guard_interrupt_thread(EngineLockable& lockable) { g_lockable.store(&lockable, std::memory_order_release); }

void park_interrupt_thread() {
  if (EngineLockable* lockable = g_lockable.load(std::memory_order_acquire)) lockable->acquire();
}

bool interrupt_thread_is_guarded() { return g_caught.load(std::memory_order_relaxed); }

int guarded_epoll_wait(EpollWait wait, int epoll_fd, epoll_event* events, int events_max, int timeout_ms) {
  if (rte_thread_is_intr() == 0) return wait(epoll_fd, events, events_max, timeout_ms);
  g_caught.store(true, std::memory_order_relaxed);
  while (true) {
    if (EngineLockable* owned = std::exchange(t_owned, nullptr)) owned->release();
    int count = wait(epoll_fd, events, events_max, timeout_ms);
    EngineLockable* lockable = g_lockable.load(std::memory_order_acquire);
    if (count <= 0 || lockable == nullptr) return count;
    lockable->acquire();
    t_owned = lockable;
    // Who owned the engine meanwhile may have closed what these events are about, and opened something else under the
    // same number: look again, now that nobody can.
    count = wait(epoll_fd, events, events_max, 0);
    if (count != 0) return count;
  }
}

ssize_t guarded_sendmsg(SendMessage send, int fd, const msghdr* message, int flags) {
  if (rte_thread_is_intr() == 0) return send(fd, message, flags);
  const ssize_t sent = send(fd, message, flags | MSG_NOSIGNAL);
  if (sent >= 0 || (errno != EPIPE && errno != ECONNRESET)) return sent;
  size_t bytes = 0;
  for (size_t i = 0; i < message->msg_iovlen; i++) bytes += message->msg_iov[i].iov_len;
  return static_cast<ssize_t>(bytes);
}

ssize_t guarded_recvmsg(ReceiveMessage receive, int fd, msghdr* message, int flags) {
  return receive(fd, message, rte_thread_is_intr() != 0 ? flags | MSG_DONTWAIT : flags);
}

}  // namespace uroce
