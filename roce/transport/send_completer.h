// The head of a reliable send queue: work requests end there, one by one, in the order in which they were posted.
//
// A work request that cannot be sent, because of its memory or its key, is found out at the cursor, while others in
// front of it still wait for their answers. It fails in its turn: the cause is kept here until it stands at the head.
#pragma once

#include "transport/outcome.h"
#include "transport/qp_context.h"
#include "transport/request_window.h"
#include "transport/send_queue.h"
#include "uroce/time.h"

namespace uroce {

/// A local operation, on any service. A cause other than kNone: it was refused.
Cause run_local(QpContext& context, const SendWqe& wqe);

/// The head of the queue has ended, for this cause: its slot is accounted for, and the program is told if it asked, or
/// if the cause is an error. Whoever calls this takes it off the queue.
Outcome report_send(QpContext& context, SendQueue& queue, Cause cause, Instant now);

class SendCompleter {
 public:
  /// The QP's own, which outlive this.
  SendCompleter(QpContext& context, SendQueue& queue, RequestWindow& window)
      : context_(context), queue_(queue), window_(window) {}

  /// The head was carried out. It fails nevertheless when there is no room for its completion.
  Outcome complete(Instant now) { return take(Cause::kNone, now); }
  /// The head failed, and the QP with it.
  Outcome fail(Cause cause, Instant now);
  /// Everything ends as flushed.
  void flush(Instant now);

  /// The work request at the cursor cannot be sent. Nothing goes out before that is settled or forgotten.
  Outcome set_local_error(Cause cause, Instant now);
  /// The cursor goes back: the error is met again when it comes there.
  void forget_local_error() { local_error_ = Cause::kNone; }
  bool has_local_error() const { return local_error_ != Cause::kNone; }

  /// Local operations complete as soon as they stand at the head; a local error at the cursor, likewise. To be called
  /// at the end of each call that may have moved the head.
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
