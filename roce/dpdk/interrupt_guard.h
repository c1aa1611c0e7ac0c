// Keeps DPDK's interrupt thread and the engine apart.
//
// Some drivers change a port from DPDK's interrupt thread while another thread may be inside its rx or tx burst. In
// DPDK 22.11 net_memif unmaps the rings when the peer leaves and closes their event descriptors, with nothing that
// waits for a burst under way: a crash, or eight bytes written to somebody else's file.
//
// The interrupt thread does all its work between two waits for events. So the wait is where it is caught: while it
// waits it owns nothing, as soon as it has something to do it takes the engine's lock, and it gives it back when it
// waits again. Every handler of every driver then runs between two turns.
//
// A process may have several engines. The thread takes the locks of all of them, since nothing tells from outside whose
// device an event is of, one wait may bring events of several, and a driver may keep what its ports share without a
// lock (net_memif its table of sockets). Interrupts are rare; it costs an engine the time of somebody else's handler.
//
// Order of locks: the list of guarded locks, then the locks in the order in which they came, which is the order of
// opening. Only this thread owns several engines at a time; whoever owns one waits neither for the list nor for an
// engine that was opened earlier.
//
// As it owns the engines while it handles events, it must not block: it reads messages without waiting. And net_memif
// forgets to take back a connection's handler when the first message on it cannot be sent (the peer was killed just
// then); the handler stays with memory that is freed. So a message to a peer that is gone counts as sent: the end of
// the connection is found by the next read, and that way is without fault.
//
// The calls are made inside libdpdk. Where DPDK is linked statically the linker redirects them
// (wrap_interrupt_calls.cc, -Wl,--wrap); where it is a shared library our definitions come before libc's
// (interpose_interrupt_calls.cc).
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

namespace uroce {

class EngineLockable {
 public:
  virtual void acquire() = 0;
  virtual void release() = 0;

 protected:
  ~EngineLockable() = default;
};

/// From now on the interrupt thread owns `lockable`, too, whenever it has something to do. The caller owns no engine,
/// as it waits for the thread.
void guard_interrupt_thread(EngineLockable& lockable);
/// Not any more: the port is closed. Returns when the thread does not have it. A lock that is never taken out lives as
/// long as the process.
void unguard_interrupt_thread(const EngineLockable& lockable);
/// For good, before `rte_eal_cleanup`: DPDK 22.11 takes away the memory that the interrupt thread still works with.
void park_interrupt_thread();

// What either file calls, with libc's function. Other threads get just that function.
using EpollWait = int (*)(int, epoll_event*, int, int);
using SendMessage = ssize_t (*)(int, const msghdr*, int);
using ReceiveMessage = ssize_t (*)(int, msghdr*, int);
int guarded_epoll_wait(EpollWait wait, int epoll_fd, epoll_event* events, int events_max, int timeout_ms);
ssize_t guarded_sendmsg(SendMessage send, int fd, const msghdr* message, int flags);
ssize_t guarded_recvmsg(ReceiveMessage receive, int fd, msghdr* message, int flags);

}  // namespace uroce
