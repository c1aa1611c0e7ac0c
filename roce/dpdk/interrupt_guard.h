// Keeps DPDK's interrupt thread and the engine apart.
//
// Some drivers change a port from DPDK's interrupt thread while another thread may be inside its rx or tx burst. In
// DPDK 22.11 net_memif unmaps the rings when the peer leaves and closes their event descriptors, without waiting for a
// burst to end: the result is a crash, or eight bytes written to an unrelated file.
//
// The interrupt thread does all its work between two waits for events. So the wait is intercepted: while the thread
// waits it owns nothing; as soon as it has something to do it takes the engine's lock, and it gives the lock back when
// it waits again. So every handler of every driver runs between two turns.
//
// A process may have several engines. The thread takes the locks of all of them, because it is not known from outside
// to whose device an event belongs, one wait may return events of several, and a driver may share data between its
// ports without a lock (net_memif its table of sockets). Interrupts are rare; the price is that an engine waits for the
// handlers of others.
//
// Order of locks: the list of guarded locks, then the locks in the order in which they came, which is the order of
// opening. Only this thread owns several engines at a time; a thread that owns one waits neither for the list nor for
// an engine that was opened earlier.
//
// As the thread owns the engines while it handles events, it must not block, so it reads messages without waiting.
// Besides, net_memif forgets to remove the handler of a connection when the first message on it cannot be sent (because
// the peer was killed at that moment); the handler then uses memory that is freed. So a message to a peer that is gone
// counts as sent: the next read finds the end of the connection, and that path of net_memif is correct.
//
// The other direction: net_memif connects from the thread that starts its port, which owns the engine, and a connect to
// a local socket waits while the other side's queue of connections is full, for example of attempts that were given up.
// If the other side's port belongs to this process, the interrupt thread would have to empty the queue, but waits for
// the engine; if it belongs to a program that is stopped, this program would be stopped as well. So such a connect
// fails, as it does without a listener, and is tried again later.
//
// The calls are made inside libdpdk. Where DPDK is linked statically the linker redirects them
// (wrap_interrupt_calls.cc, -Wl,--wrap); where it is a shared library our definitions come before libc's
// (interpose_interrupt_calls.cc).
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

namespace uroce {

class GuardedLock {
 public:
  virtual void acquire() = 0;
  virtual void release() = 0;

 protected:
  ~GuardedLock() = default;
};

/// From now on the interrupt thread also owns `lockable` whenever it has something to do. The caller must own no
/// engine, because this waits for the thread.
void guard_interrupt_thread(GuardedLock& lockable);
/// Ends this when the port is closed. Returns when the thread does not hold the lock. A lock for which this is never
/// called must live as long as the process.
void unguard_interrupt_thread(const GuardedLock& lockable);
/// Stops the interrupt thread for good. To be called before `rte_eal_cleanup`, because DPDK 22.11 frees memory there
/// that the interrupt thread still uses.
void park_interrupt_thread();

/// While one lives, a `connect` of this thread to a local socket does not wait.
class ImpatientConnects {
 public:
  ImpatientConnects();
  ~ImpatientConnects();
  ImpatientConnects(const ImpatientConnects&) = delete;
  ImpatientConnects& operator=(const ImpatientConnects&) = delete;
};

// Called by either of the two files, with libc's function, which they just call outside the interrupt thread
// (`guarded_connect`: where no ImpatientConnects lives).
using EpollWait = int (*)(int, epoll_event*, int, int);
using SendMessage = ssize_t (*)(int, const msghdr*, int);
using ReceiveMessage = ssize_t (*)(int, msghdr*, int);
using Connect = int (*)(int, const sockaddr*, socklen_t);
int guarded_epoll_wait(EpollWait wait, int epoll_fd, epoll_event* events, int events_max, int timeout_ms);
ssize_t guarded_sendmsg(SendMessage send, int fd, const msghdr* message, int flags);
ssize_t guarded_recvmsg(ReceiveMessage receive, int fd, msghdr* message, int flags);
int guarded_connect(Connect connect, int fd, const sockaddr* address, socklen_t length);

}  // namespace uroce
