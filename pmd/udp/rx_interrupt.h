// What an application waits for that has asked for RX interrupts: one descriptor, readable when a packet has come to
// one of the sockets, or when the port had something to give already as it was about to sleep.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace uroce::udp {

class RxInterrupt {
 public:
  /// Returns false, with one line in `error`, when no descriptors are left; as does `watch`.
  bool open(std::string& error);
  /// From now on `fd` is one of those that are waited for.
  bool watch(int fd, std::string& error);
  int fd() const { return epoll_.get(); }
  void raise();
  void clear();
  /// Up to `max` of the descriptors that have something. Returns how many.
  uint32_t ready(int* fds, uint32_t max) const;

 private:
  UniqueFd event_;
  bool raised_ = false;
  UniqueFd epoll_;
};

}  // namespace uroce::udp
