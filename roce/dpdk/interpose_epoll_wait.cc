// For programs that load DPDK as a shared library: see interrupt_guard.h.
#include <dlfcn.h>

#include "dpdk/interrupt_guard.h"

extern "C" __attribute__((visibility("default"))) int epoll_wait(int epoll_fd, epoll_event* events, int events_max,
                                                                 int timeout_ms) {
  static const auto real = reinterpret_cast<uroce::EpollWait>(dlsym(RTLD_NEXT, "epoll_wait"));
  return uroce::guarded_epoll_wait(real, epoll_fd, events, events_max, timeout_ms);
}
