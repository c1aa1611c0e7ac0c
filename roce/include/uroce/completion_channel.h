// Where a program sleeps until something completes: verbs' completion channel, as a descriptor for poll and epoll.
//
//   cq.request_event();            // before the last look into the queue
//   if (cq.poll(completions) == 0) epoll_wait(...);
//   channel.take();                // after the descriptor was readable
//
// While the program sleeps another thread has to drive: open the endpoint with Drive::kBoth or Drive::kBackground. The
// program gives its Ownership back before it sleeps. `take` and `fd` may be called by any thread, without it.
#pragma once

#include <cstdint>
#include <memory>

#include "uroce/export.h"
#include "uroce/handle.h"

namespace uroce::rdma {

class UROCE_API CompletionChannel {
 public:
  CompletionChannel() = default;  // none
  /// False when there is no channel: none was made, or the process has no descriptor left.
  explicit operator bool() const { return held_ != nullptr; }

  /// Readable when a queue of the channel has an event. Closed with the channel, which must live longer than its
  /// queues: declare it before them.
  int fd() const;
  /// Takes all events, so that the descriptor is readable again only with the next one. Returns how many there were;
  /// they do not tell their queues: poll all queues of the channel.
  uint64_t take();

 private:
  friend class Device;
  Handle<HeldCompletionChannel> held_;
};

}  // namespace uroce::rdma
