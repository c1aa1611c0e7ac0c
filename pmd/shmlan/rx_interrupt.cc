#include "pmd/shmlan/rx_interrupt.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace uroce::shmlan {

RxInterrupt::~RxInterrupt() {
  if (epoll_fd_ >= 0) close(epoll_fd_);
  if (event_fd_ >= 0) close(event_fd_);
}

bool RxInterrupt::open(int wake_fd, std::string& error) {
  event_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  if (event_fd_ >= 0 && epoll_fd_ >= 0 && epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, event_fd_, &event) == 0 &&
      epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wake_fd, &event) == 0)
    return true;
  error = std::string("no descriptors for RX interrupts: ") + std::strerror(errno);
  return false;
}

void RxInterrupt::raise() { eventfd_write(event_fd_, 1); }

void RxInterrupt::clear() {
  eventfd_t value = 0;
  eventfd_read(event_fd_, &value);
}

}  // namespace uroce::shmlan
