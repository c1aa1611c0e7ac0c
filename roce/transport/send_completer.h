// The head of a reliable send queue: work requests end there, one by one, in the order in which they were posted.
//
// When a work request cannot be sent because of its memory or its key, that is found at the cursor, while others
// before it still wait for their answers. It fails in its turn: the cause is kept here until the work request is at
// the head.
#pragma once

#include "transport/outcome.h"
#include "transport/qp_context.h"
#include "transport/request_window.h"
#include "transport/send_queue.h"
#include "uroce/time.h"

namespace uroce {

/// Carries out a local operation, on any service. Returns a cause other than kNone when the operation was refused.
Cause run_local(QpContext& context, const SendWqe& wqe);

/// The head of the queue has ended for this cause. Accounts for its slot, and makes a completion if the program asked
/// for one or if the cause is an error. The caller then takes the head off the queue.
Outcome report_send(QpContext& context, SendQueue& queue, Cause cause, Instant now);

class SendCompleter {
 public:
  /// All three belong to the QP and outlive this object.
  SendCompleter(QpContext& context, SendQueue& queue, RequestWindow& window)
      : context_(context), queue_(queue), window_(window) {}

  /// The head was carried out. The outcome is a failure when there is no room for its completion.
  Outcome complete(Instant now) { return take(Cause::kNone, now); }
  /// The head failed, and the QP with it.
  Outcome fail(Cause cause, Instant now);
  /// Completes everything as flushed.
  void flush(Instant now);

  /// The work request at the cursor cannot be sent. Nothing goes out before this error is settled or forgotten.
  Outcome set_local_error(Cause cause, Instant now);
  /// The cursor goes back; the error is found again when the cursor comes to the same work request.
  void forget_local_error() { local_error_ = Cause::kNone; }
  bool has_local_error() const { return local_error_ != Cause::kNone; }

  /// Completes the work requests now at the head that wait for no answer: local operations, and the work request with a
  /// local error. To be called at the end of each call that may have moved the head.
  Outcome settle(Instant now);

 private:
  Outcome take(Cause cause, Instant now) {
    const Outcome outcome = report_send(context_, queue_, cause, now);
    window_.pop_head();
    return outcome;
  }

  QpContext& context_;
  SendQueue& queue_;
  RequestWindow& window_;
  Cause local_error_ = Cause::kNone;
};

}  // namespace uroce
