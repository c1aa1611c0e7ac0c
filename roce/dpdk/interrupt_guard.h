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
// The wait is `epoll_wait`, called inside libdpdk. Where DPDK is linked statically the linker redirects it
// (wrap_epoll_wait.cc, -Wl,--wrap); where it is a shared library our definition comes before libc's
// (interpose_epoll_wait.cc).
#pragma once

#include <sys/epoll.h>

namespace uroce {

class EngineLockable {
 public:
  virtual void acquire() = 0;
  virtual void release() = 0;

 protected:
  ~EngineLockable() = default;
};

/// `lockable` must live as long as the process. Once only.
void guard_interrupt_thread(EngineLockable& lockable);
/// True once the interrupt thread was caught: false means that this program was linked without either file.
bool interrupt_thread_is_guarded();

using EpollWait = int (*)(int, epoll_event*, int, int);
/// What either file calls instead of `wait`.
int guarded_epoll_wait(EpollWait wait, int epoll_fd, epoll_event* events, int events_max, int timeout_ms);

}  // namespace uroce
