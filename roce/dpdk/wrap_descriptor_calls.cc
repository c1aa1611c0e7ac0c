// No descriptor of the device outlives exec: DPDK makes its own without close-on-exec, and a program that starts others
// would hand them its telemetry socket, its wires and its interfaces.
//
// For targets that link DPDK's archives with -Wl,--wrap=... for each of these functions, which are all with which the
// archives make descriptors. (`recvmsg` is in wrap_interrupt_calls.cc; libraries that drivers load at run time open
// theirs in another way, which `verbs_exec` checks.)
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <string>

#define HIDDEN __attribute__((visibility("hidden")))

extern "C" {

int __real_socket(int domain, int type, int protocol);
int __real_open64(const char* path, int flags, ...);
int __real_openat64(int directory, const char* path, int flags, ...);
FILE* __real_fopen64(const char* path, const char* mode);
int __real_eventfd(unsigned count, int flags);
int __real_epoll_create1(int flags);
int __real_timerfd_create(int clock, int flags);
int __real_memfd_create(const char* name, unsigned flags);

HIDDEN int __wrap_socket(int domain, int type, int protocol) {
  return __real_socket(domain, type | SOCK_CLOEXEC, protocol);
}

HIDDEN int __wrap_accept(int fd, sockaddr* address, socklen_t* length) {
  return accept4(fd, address, length, SOCK_CLOEXEC);
}

HIDDEN int __wrap_open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  const mode_t mode = has_mode ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return __real_open64(path, flags | O_CLOEXEC, mode);
}

HIDDEN int __wrap_openat64(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  const mode_t mode = has_mode ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return __real_openat64(directory, path, flags | O_CLOEXEC, mode);
}

HIDDEN FILE* __wrap_fopen64(const char* path, const char* mode) {
  return __real_fopen64(path, (std::string(mode) + "e").c_str());
}

HIDDEN int __wrap_mkstemp64(char* name) { return mkostemp64(name, O_CLOEXEC); }

HIDDEN int __wrap_pipe(int* ends) { return pipe2(ends, O_CLOEXEC); }

HIDDEN int __wrap_dup(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 0); }

HIDDEN int __wrap_eventfd(unsigned count, int flags) { return __real_eventfd(count, flags | EFD_CLOEXEC); }

HIDDEN int __wrap_epoll_create(int /*size*/) { return __real_epoll_create1(EPOLL_CLOEXEC); }

HIDDEN int __wrap_epoll_create1(int flags) { return __real_epoll_create1(flags | EPOLL_CLOEXEC); }

HIDDEN int __wrap_timerfd_create(int clock, int flags) { return __real_timerfd_create(clock, flags | TFD_CLOEXEC); }

HIDDEN int __wrap_memfd_create(const char* name, unsigned flags) {
  return __real_memfd_create(name, flags | MFD_CLOEXEC);
}

}  // extern "C"
