// For programs that load DPDK as a shared library: see interrupt_guard.h.
#include <dlfcn.h>

#include "dpdk/interrupt_guard.h"

#define EXPORTED __attribute__((visibility("default")))

namespace {

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

EXPORTED int epoll_wait(int epoll_fd, epoll_event* events, int events_max, int timeout_ms) {
  static const auto real = next<uroce::EpollWait>("epoll_wait");
  return uroce::guarded_epoll_wait(real, epoll_fd, events, events_max, timeout_ms);
}

EXPORTED ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static const auto real = next<uroce::SendMessage>("sendmsg");
  return uroce::guarded_sendmsg(real, fd, message, flags);
}

EXPORTED ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static const auto real = next<uroce::ReceiveMessage>("recvmsg");
  return uroce::guarded_recvmsg(real, fd, message, flags);
}

EXPORTED int connect(int fd, const sockaddr* address, socklen_t length) {
  static const auto real = next<uroce::Connect>("connect");
  return uroce::guarded_connect(real, fd, address, length);
}

}  // extern "C"
