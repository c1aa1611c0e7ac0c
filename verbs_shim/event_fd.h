// A descriptor that counts events. A program can poll it, make it non-blocking or duplicate it, like that of a kernel.
//
// Each waiting event is one count of an eventfd in semaphore mode, so that the descriptor's own O_NONBLOCK flag decides
// whether taking one blocks. System calls are made directly, because other preloaded libraries (rsockets) wrap the
// functions of libc.
#pragma once

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace uroce::verbs {

class EventFd {
 public:
  EventFd() : fd_(static_cast<int>(syscall(SYS_eventfd2, 0, EFD_SEMAPHORE | EFD_CLOEXEC))) {}
  ~EventFd() {
    if (fd_ >= 0) syscall(SYS_close, fd_);
  }
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;

  int fd() const { return fd_; }

  void add() { add_to(fd_); }

  /// Takes one count, and waits for it unless the program made the descriptor non-blocking. False when errno says why
  /// not. A thread can be cancelled (pthread_cancel) while it waits, as in a kernel's read: call without locks held.
  bool take() { return take_from(fd_); }

  /// Takes one count if there is one; never waits.
  bool try_take() { return try_take_from(fd_); }

  bool blocking() const { return blocks(fd_); }

  // The same for a descriptor that a program owns.
  static void add_to(int fd) {
    const uint64_t one = 1;
    if (syscall(SYS_write, fd, &one, sizeof one) < 0) {
      // This happens only when the program closed our descriptor.
    }
  }
  static bool take_from(int fd) {
    uint64_t value = 0;
    iovec piece{&value, sizeof value};
    // The read that nobody wraps, and that libc makes a cancellation point.
    return preadv2(fd, &piece, 1, -1, 0) == static_cast<ssize_t>(sizeof value);
  }
  static bool try_take_from(int fd) {
    uint64_t value = 0;
    iovec piece{&value, sizeof value};
    // Not libc's: that would be a cancellation point, also for whoever destroys an object.
    return syscall(SYS_preadv2, fd, &piece, 1L, -1L, -1L, RWF_NOWAIT) == static_cast<long>(sizeof value);
  }
  static bool blocks(int fd) { return (syscall(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK) == 0; }

 private:
  int fd_;
};

}  // namespace uroce::verbs
