// What the parts of a queue pair report to the observer. It adds which queue pair it is, so that the parts need not
// know.
#pragma once

#include <optional>
#include <utility>

#include "transport/observer.h"

namespace uroce {

/// Why a queue pair is in error: what went wrong first.
struct FirstError {
  std::optional<WcStatus> status;  // of its own work request; none: a request of the peer was refused
  Cause cause{};
};

class QpEvents {
 public:
  QpEvents(Observer& observer, Qp& qp, bool reliable) : observer_(observer), qp_(qp), reliable_(reliable) {}

  void raise(AsyncEvent event) const { observer_.on_qp_event(qp_, event); }
  /// A message was too long for its receive, and the queue pair goes on: its sender must not be able to fill the log.
  void on_too_long_dropped() {
    if (!std::exchange(too_long_told_, true)) observer_.on_responder_error(qp_, Cause::kReceiveTooShort);
  }
  void on_error_completion(const Completion& completion) {
    if (!reliable_ && completion.cause == Cause::kReceiveTooShort) return;  // on_too_long_dropped
    if (!first_error_ && completion.status != WcStatus::kWrFlushErr)
      first_error_ = {completion.status, completion.cause};
    observer_.on_error_completion(qp_, completion);
  }
  void on_responder_error(Cause cause) {
    if (!first_error_) first_error_ = {std::nullopt, cause};
    observer_.on_responder_error(qp_, cause);
  }
  /// A completion found no room in its queue. This is reported once, and again only after a RESET.
  void on_completion_lost() {
    if (!std::exchange(completion_lost_, true)) raise(AsyncEvent::kQpFatal);
  }
  void reset() {
    completion_lost_ = too_long_told_ = false;
    first_error_.reset();
  }
  const std::optional<FirstError>& first_error() const { return first_error_; }

 private:
  Observer& observer_;
  Qp& qp_;
  const bool reliable_;
  bool too_long_told_ = false;
  bool completion_lost_ = false;
  std::optional<FirstError> first_error_;
};

}  // namespace uroce
