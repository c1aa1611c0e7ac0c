// The descriptor of a list of events. A program can do with it what it can with that of a kernel: poll it in any way,
// make it non-blocking, duplicate it, hand it to another process, and ask for signals (O_ASYNC, F_SETOWN, F_SETSIG),
// which is what an eventfd does not know.
//
// It is a socket that is connected to itself, with one datagram for each event that waits, so that the descriptor's own
// O_NONBLOCK flag decides whether waiting blocks. Only the list says whether there is an event, and which: waiting
// takes nothing away, so nothing is lost with a thread that is cancelled while it waits, or with a program that reads
// from the descriptor. System calls are made directly, because other preloaded libraries (rsockets) wrap the functions
// of libc.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace uroce::verbs {

/// Makes such a descriptor, with O_CLOEXEC and O_NONBLOCK as in `flags`. -1 when errno says why not.
inline int open_event_fd(int flags) {
  const int kind = SOCK_DGRAM | ((flags & O_CLOEXEC) != 0 ? SOCK_CLOEXEC : 0) | (flags & O_NONBLOCK);
  const auto fd = static_cast<int>(syscall(SYS_socket, AF_UNIX, kind, 0));
  if (fd < 0) return -1;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  socklen_t bytes = sizeof name.sun_family;  // the kernel finds a name that is not in use
  const bool bound = syscall(SYS_bind, fd, &name, bytes) == 0;
  bytes = sizeof name;
  // Once it is connected, it receives nothing from other sockets.
  if (bound && syscall(SYS_getsockname, fd, &name, &bytes) == 0 && syscall(SYS_connect, fd, &name, bytes) == 0) {
    return fd;
  }
  const int error = errno;
  syscall(SYS_close, fd);
  errno = error;
  return -1;
}

/// Waits until the descriptor of a list is readable, unless the program made it non-blocking. False when errno says why
/// not. A thread can be cancelled (pthread_cancel) while it waits, as in a kernel's read: call without locks held.
inline bool wait_readable(int fd) {
  char byte;
  iovec piece{&byte, sizeof byte};
  mmsghdr message{};
  message.msg_hdr.msg_iov = &piece;
  message.msg_hdr.msg_iovlen = 1;
  // Of the calls that receive, the one that no library wraps; after a signal it starts anew, as a read does.
  return recvmmsg(fd, &message, 1, MSG_PEEK, nullptr) == 1;
}

inline bool waiting_blocks(int fd) { return (syscall(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK) == 0; }

/// Keeps a descriptor readable for as long as events wait in a list. To be called under the list's lock.
class EventSignal {
 public:
  /// One event more.
  void add(int fd) {
    if (!send(fd)) unsent_++;
  }
  /// One event less. `more`: whether others still wait.
  void take(int fd, bool more) {
    const bool taken = receive(fd);
    if (!more) {
      unsent_ = 0;
    } else if ((unsent_ != 0 || !taken) && send(fd) && unsent_ != 0) {
      unsent_--;
    }
  }
  /// The list is empty, so a datagram that is still there stands for no event.
  void settle(int fd) { receive(fd); }
  /// Wakes another thread in place of one that was woken and ends: the kernel wakes one for each datagram.
  void pass_on(int fd) {
    if (receive(fd)) add(fd);
  }

 private:
  static bool send(int fd) {
    const char byte = 0;
    return syscall(SYS_sendto, fd, &byte, sizeof byte, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0) == 1;
  }
  static bool receive(int fd) {
    char byte;
    return syscall(SYS_recvfrom, fd, &byte, sizeof byte, MSG_DONTWAIT, nullptr, nullptr) >= 0;
  }

  uint64_t unsent_ = 0;  // events for which the socket had no room
};

/// A descriptor as above, closed at the end.
class EventFd {
 public:
  EventFd() : fd_(open_event_fd(O_CLOEXEC)) {}
  ~EventFd() {
    if (fd_ >= 0) syscall(SYS_close, fd_);
  }
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;

  int fd() const { return fd_; }
  bool blocking() const { return waiting_blocks(fd_); }
  void add() { signal_.add(fd_); }
  void take(bool more) { signal_.take(fd_, more); }
  void settle() { signal_.settle(fd_); }
  void pass_on() { signal_.pass_on(fd_); }

 private:
  int fd_;
  EventSignal signal_;
};

/// Waits for an event. When the thread is cancelled meanwhile, `pass_on` is called.
template <typename PassOn>
bool wait_for_event_on(int fd, PassOn&& pass_on) {
  struct Waiting {
    PassOn& pass_on;
    bool over = false;
    ~Waiting() {
      if (!over) pass_on();
    }
  } waiting{pass_on};
  const bool readable = wait_readable(fd);
  waiting.over = true;
  return readable;
}

}  // namespace uroce::verbs
