// What a queue pair shows of itself to peers that copy without frames (base/direct_copy.h), while it can take their
// requests.
//
// Only RC. In RTR, the first request is an event, which the responder has to see: the queue pair is shown after it.
#pragma once

#include <atomic>

#include "base/direct_copy.h"
#include "transport/qp_context.h"
#include "uroce/psn.h"

namespace uroce {

class QueuePairShow {
 public:
  /// State or attributes may have changed. `next` is the PSN that the responder expects.
  void update(const QpContext& context, Psn next);
  /// Returns when no peer copies for this queue pair any more. To be called before what ends its connection takes
  /// effect.
  void hide(const QpContext& context);
  /// The responder saw a packet, and expects `next`.
  void on_request(const QpContext& context, Psn next) {
    if (next_ != nullptr) {
      next_->store(next.value(), std::memory_order_release);
    } else if (awaits_first_ && next != context.attributes.rq_psn) {
      show(context, next);
    }
  }

 private:
  void show(const QpContext& context, Psn next);

  std::atomic<uint32_t>* next_ = nullptr;  // nullptr: it is not shown
  bool awaits_first_ = false;              // it will be, when the first request has come
};

}  // namespace uroce
