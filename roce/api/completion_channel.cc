#include "uroce/completion_channel.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "api/device_core.h"
#include "api/held_channel.h"
#include "uroce/completion_queue.h"
#include "uroce/device.h"

namespace uroce::rdma {

HeldCompletionChannel::HeldCompletionChannel() : fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

HeldCompletionChannel::~HeldCompletionChannel() {
  if (fd >= 0) close(fd);
}

void HeldCompletionChannel::add() const {
  const uint64_t one = 1;
  // It fails only when the eventfd's counter is full, and then it is readable anyway.
  static_cast<void>(!write(fd, &one, sizeof one));
}

template <>
void Release<HeldCompletionChannel>::operator()(HeldCompletionChannel* channel) const {
  delete channel;
}

int CompletionChannel::fd() const { return held_->fd; }

uint64_t CompletionChannel::take() {
  uint64_t events = 0;
  return read(held_->fd, &events, sizeof events) == sizeof events ? events : 0;
}

CompletionChannel Device::create_channel() {
  CompletionChannel channel;
  auto made = std::make_unique<HeldCompletionChannel>();
  if (made->fd >= 0) channel.held_ = {made.release(), {core_.get()}};
  return channel;
}

}  // namespace uroce::rdma
