// Where completions wait for the program.
//
// A queue is polled; several queue pairs may share one. It must live at least as long as they do: declare it before
// them. All calls must come from the thread that owns the device at the time (device.h).
#pragma once

#include <cstdint>
#include <span>

#include "uroce/export.h"
#include "uroce/handle.h"
#include "uroce/work_request.h"

namespace uroce::rdma {

class UROCE_API CompletionQueue {
 public:
  CompletionQueue() = default;  // none
  /// False when there is no queue: none was made, the device had no room for one, or it would have been too large
  /// (limits.h).
  explicit operator bool() const { return queue_ != nullptr; }

  uint32_t capacity() const;
  uint32_t size() const;  // completions that wait to be polled
  /// A completion found no room: it is lost, and the queue is in error for good. A queue that holds as many as all work
  /// requests that may be under way cannot overrun.
  bool overrun() const;
  /// Takes up to out.size() completions, oldest first, and returns how many. The slots of their work requests are free
  /// only after this.
  uint32_t poll(std::span<Completion> out);
  /// Of a queue with a channel (completion_channel.h): one event, as soon as there is a completion that the program was
  /// not told of; with `solicited_only` one of a message that its sender marked (kSendSolicited), or in error. Each
  /// request brings one event at most.
  void request_event(bool solicited_only = false);

 private:
  friend class Device;
  Handle<HeldCompletionQueue> queue_;
};

}  // namespace uroce::rdma
