// What is behind the library's completion channel.
#pragma once

namespace uroce::rdma {

/// An eventfd, which counts the events of all queues of the channel.
struct HeldCompletionChannel {
  HeldCompletionChannel();
  ~HeldCompletionChannel();
  HeldCompletionChannel(const HeldCompletionChannel&) = delete;
  HeldCompletionChannel& operator=(const HeldCompletionChannel&) = delete;
  /// One event more. May be called in the middle of a turn.
  void add() const;

  const int fd;  // -1: there was none
};

}  // namespace uroce::rdma
