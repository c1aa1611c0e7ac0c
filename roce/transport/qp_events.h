// What the parts of a queue pair report to the observer. It adds which queue pair it is, so that the parts need not
// know.
#pragma once

#include <utility>

#include "transport/observer.h"

namespace uroce {

class QpEvents {
 public:
  QpEvents(Observer& observer, Qp& qp) : observer_(observer), qp_(qp) {}

  void raise(AsyncEvent event) const { observer_.on_qp_event(qp_, event); }
  void on_error_completion(const Completion& completion) const { observer_.on_error_completion(qp_, completion); }
  void on_responder_error(Cause cause) const { observer_.on_responder_error(qp_, cause); }
  /// A completion found no room in its queue. This is reported once, and again only after a RESET.
  void on_completion_lost() {
    if (!std::exchange(completion_lost_, true)) raise(AsyncEvent::kQpFatal);
  }
  void reset() { completion_lost_ = false; }

 private:
  Observer& observer_;
  Qp& qp_;
  bool completion_lost_ = false;
};

}  // namespace uroce
