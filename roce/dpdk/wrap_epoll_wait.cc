// For targets that link DPDK's archives, with -Wl,--wrap=epoll_wait and -Wl,--wrap=openlog: see interrupt_guard.h.
#include "dpdk/interrupt_guard.h"

extern "C" {

int __real_epoll_wait(int epoll_fd, epoll_event* events, int events_max, int timeout_ms);

__attribute__((visibility("hidden"))) int __wrap_epoll_wait(int epoll_fd, epoll_event* events, int events_max,
                                                            int timeout_ms) {
  return uroce::guarded_epoll_wait(__real_epoll_wait, epoll_fd, events, events_max, timeout_ms);
}

// EAL opens the system log, which would change the name under which the program itself writes there. Our log never
// goes there.
__attribute__((visibility("hidden"))) void __wrap_openlog(const char* /*name*/, int /*option*/, int /*facility*/) {}

}  // extern "C"
