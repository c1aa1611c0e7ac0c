// What an application waits for that has asked for RX interrupts: one descriptor, readable when one of those that are
// watched is, because a packet has come, or when the port had something to do already as it was about to sleep.
//
// Used under the lock of the port that has it.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace uroce::vdev {

class RxInterrupt {
 public:
  /// Returns false, with one line in `error`, when no descriptors are left; as does `watch`.
  bool open(std::string& error);
  /// Until it is closed, `fd` is one of those that are waited for.
  bool watch(int fd, std::string& error);
  int fd() const { return epoll_.get(); }
  void raise();
  void clear();
  /// Up to `max` of the watched descriptors that have something. Returns how many.
  uint32_t ready(int* fds, uint32_t max) const;

 private:
  UniqueFd event_;
  bool raised_ = false;
  UniqueFd epoll_;
};

}  // namespace uroce::vdev
