// For targets that link DPDK's archives with -Wl,--wrap=... for each of these functions; see interrupt_guard.h.
#include "dpdk/interrupt_guard.h"

#define HIDDEN __attribute__((visibility("hidden")))

extern "C" {

int __real_epoll_wait(int epoll_fd, epoll_event* events, int events_max, int timeout_ms);
ssize_t __real_sendmsg(int fd, const msghdr* message, int flags);
ssize_t __real_recvmsg(int fd, msghdr* message, int flags);
int __real_connect(int fd, const sockaddr* address, socklen_t length);

HIDDEN int __wrap_epoll_wait(int epoll_fd, epoll_event* events, int events_max, int timeout_ms) {
  return uroce::guarded_epoll_wait(__real_epoll_wait, epoll_fd, events, events_max, timeout_ms);
}

HIDDEN ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  return uroce::guarded_sendmsg(__real_sendmsg, fd, message, flags);
}

HIDDEN ssize_t __wrap_recvmsg(int fd, msghdr* message, int flags) {
  // Descriptors from another process do not outlive exec: see wrap_descriptor_calls.cc.
  return uroce::guarded_recvmsg(__real_recvmsg, fd, message, flags | MSG_CMSG_CLOEXEC);
}

HIDDEN int __wrap_connect(int fd, const sockaddr* address, socklen_t length) {
  return uroce::guarded_connect(__real_connect, fd, address, length);
}

// Does nothing: EAL opens the system log, which would change the name under which the program itself writes to it.
// uroce does not log there.
HIDDEN void __wrap_openlog(const char* /*name*/, int /*option*/, int /*facility*/) {}

}  // extern "C"
