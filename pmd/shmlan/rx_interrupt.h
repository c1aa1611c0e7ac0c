// What an application that has asked for RX interrupts waits for: one descriptor, readable when a member has sent a
// frame to a port that sleeps, or when the port already had something to do as it was about to sleep.
#pragma once

#include <string>

namespace uroce::shmlan {

class RxInterrupt {
 public:
  RxInterrupt() = default;
  ~RxInterrupt();
  RxInterrupt(const RxInterrupt&) = delete;
  RxInterrupt& operator=(const RxInterrupt&) = delete;

  /// `wake_fd`, of the segment, outlives it. Returns false, with one line in `error`, when no descriptors are left.
  bool open(int wake_fd, std::string& error);
  int fd() const { return epoll_fd_; }
  void raise();
  void clear();

 private:
  int event_fd_ = -1;
  int epoll_fd_ = -1;
};

}  // namespace uroce::shmlan
