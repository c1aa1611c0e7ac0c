#include "pmd/vdev/rx_interrupt.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace uroce::vdev {

bool RxInterrupt::open(std::string& error) {
  event_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (event_ && epoll_) return watch(event_.get(), error);
  error = std::string("no descriptors for RX interrupts: ") + std::strerror(errno);
  return false;
}

bool RxInterrupt::watch(int fd, std::string& error) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return true;
  error = std::string("a socket cannot be waited for: ") + std::strerror(errno);
  return false;
}

void RxInterrupt::raise() {
  raised_ = true;
  eventfd_write(event_.get(), 1);
}

void RxInterrupt::clear() {
  if (!std::exchange(raised_, false)) return;
  eventfd_t value = 0;
  eventfd_read(event_.get(), &value);
}

uint32_t RxInterrupt::ready(int* fds, uint32_t max) const {
  std::array<epoll_event, 8> events{};
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  uint32_t found = 0;
  for (int i = 0; i < count && found < max; i++) {
    if (events[static_cast<size_t>(i)].data.fd != event_.get()) fds[found++] = events[static_cast<size_t>(i)].data.fd;
  }
  return found;
}

}  // namespace uroce::vdev
