#include "dpdk/interrupt_guard.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

#include <rte_interrupts.h>

#include "base/check.h"
#include "base/immortal.h"

namespace uroce {
namespace {

struct Guarded {
  std::mutex mutex;  // the interrupt thread holds it as long as it owns the engines
  std::vector<GuardedLock*> locks;
};

Guarded& guarded() {
  static Immortal<Guarded> one;  // the interrupt thread uses it until the process ends
  return *one;
}

thread_local bool t_owns = false;
thread_local bool t_impatient = false;

void acquire_all() {
  guarded().mutex.lock();
  for (GuardedLock* lockable : guarded().locks) lockable->acquire();
}

/// In reverse order, because each puts back the lcore id that it found.
void release_all() {
  auto& locks = guarded().locks;
  std::for_each(locks.rbegin(), locks.rend(), [](GuardedLock* lockable) { lockable->release(); });
  guarded().mutex.unlock();
}

}  // namespace

void guard_interrupt_thread(GuardedLock& lockable) {
  const std::lock_guard guard(guarded().mutex);
  auto& locks = guarded().locks;
  ensure(std::find(locks.begin(), locks.end(), &lockable) == locks.end(), "a lock is taken once");
  locks.push_back(&lockable);
}

void unguard_interrupt_thread(const GuardedLock& lockable) {
  const std::lock_guard guard(guarded().mutex);
  std::erase(guarded().locks, &lockable);
}

void park_interrupt_thread() { acquire_all(); }

ImpatientConnects::ImpatientConnects() { t_impatient = true; }

ImpatientConnects::~ImpatientConnects() { t_impatient = false; }

int guarded_epoll_wait(EpollWait wait, int epoll_fd, epoll_event* events, int events_max, int timeout_ms) {
  if (rte_thread_is_intr() == 0) return wait(epoll_fd, events, events_max, timeout_ms);
  while (true) {
    if (std::exchange(t_owns, false)) release_all();
    int count = wait(epoll_fd, events, events_max, timeout_ms);
    if (count <= 0) return count;
    acquire_all();
    t_owns = true;
    // The owner of an engine may have closed the descriptors of these events in the meantime, and opened others with
    // the same numbers. So the events are read again, now that no thread can do that.
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

int guarded_connect(Connect connect, int fd, const sockaddr* address, socklen_t length) {
  const int flags = t_impatient && address->sa_family == AF_UNIX ? fcntl(fd, F_GETFL) : -1;
  if (flags < 0 || (flags & O_NONBLOCK) != 0) return connect(fd, address, length);
  fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  const int result = connect(fd, address, length);
  const int error = errno;
  fcntl(fd, F_SETFL, flags);
  errno = error;
  return result;
}

}  // namespace uroce
