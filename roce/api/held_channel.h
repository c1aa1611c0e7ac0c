// The implementation of the library's completion channel.
#pragma once

namespace uroce::rdma {

/// An eventfd, which counts the events of all queues of the channel.
struct HeldCompletionChannel {
  HeldCompletionChannel();
  ~HeldCompletionChannel();
  HeldCompletionChannel(const HeldCompletionChannel&) = delete;
  HeldCompletionChannel& operator=(const HeldCompletionChannel&) = delete;
  /// Adds an event. May be called in the middle of a turn.
  void add() const;

  const int fd;  // -1: none was available
};

}  // namespace uroce::rdma
