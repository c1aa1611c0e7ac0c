#include "script/script_observer.h"

#include "script/text.h"
#include "script/vocabulary.h"
#include "transport/qp.h"

namespace uroce::script {

uint32_t ScriptObserver::id_of(const Qp& qp) const {
  for (const auto& [id, known] : qps_) {
    if (known->qp == &qp) return id;
  }
  return 0;
}

void ScriptObserver::on_qp_event(Qp& qp, AsyncEvent event) {
  const uint32_t id = id_of(qp);
  if (id != 0) qps_.at(id)->events.push_back(event);
  if (event == AsyncEvent::kCommEst && manager_ != nullptr) manager_->note_established(qp.qpn());
  reasons_.push_back(format("at %s: event on qp %u: ", to_text(now_ - kStart).c_str(), id) + event_name(event));
}

void ScriptObserver::on_srq_limit(SharedReceiveQueue& srq) {
  for (auto& [id, qp] : qps_) {
    if (qp->srq == &srq) qp->events.push_back(AsyncEvent::kSrqLimitReached);
  }
}

void ScriptObserver::on_cq_error(CompletionQueue& cq) {
  for (auto& [id, qp] : qps_) {
    if (qp->cq == &cq) qp->events.push_back(AsyncEvent::kCqErr);
  }
}

void ScriptObserver::on_error_completion(const Qp& qp, const Completion& completion) {
  if (completion.cause == Cause::kFlushed) return;
  reasons_.push_back(format("at %s: qp %u, work request %llu: ", to_text(now_ - kStart).c_str(), id_of(qp),
                            static_cast<unsigned long long>(completion.wr_id)) +
                     wc_status_name(completion.status) + ": " + cause_text(completion.cause));
}

void ScriptObserver::on_responder_error(const Qp& qp, Cause cause) {
  reasons_.push_back(format("at %s: qp %u refused a request: ", to_text(now_ - kStart).c_str(), id_of(qp)) +
                     cause_text(cause));
}

}  // namespace uroce::script
