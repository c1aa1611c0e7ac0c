#include "uroce/events.h"

#include "api/engine_core.h"
#include "api/held_channel.h"
#include "dpdk/endpoint.h"

namespace uroce::rdma {

EventListener::~EventListener() = default;
void EventListener::on_qp_event(uint32_t /*qp_num*/, AsyncEvent /*event*/) {}
void EventListener::on_port_event(AsyncEvent /*event*/) {}
void EventListener::on_cq_error() {}
void EventListener::on_srq_limit() {}
void EventListener::on_error_completion(const Completion& /*completion*/) {}
void EventListener::on_refused_request(uint32_t /*qp_num*/, Cause /*cause*/) {}

Instant EngineCore::now() const { return endpoint != nullptr ? endpoint->now() : told; }

void EngineCore::on_cq_event(uroce::CompletionQueue& cq) {
  if (cq.user() != nullptr) static_cast<const HeldCompletionChannel*>(cq.user())->add();
}

void EngineCore::on_qp_event(Qp& qp, AsyncEvent event) {
  if (listener != nullptr) listener->on_qp_event(qp.qpn(), event);
}

void EngineCore::on_port_event(AsyncEvent event) {
  if (listener != nullptr) listener->on_port_event(event);
}

void EngineCore::on_cq_error(uroce::CompletionQueue& /*cq*/) {
  if (listener != nullptr) listener->on_cq_error();
}

void EngineCore::on_srq_limit(uroce::SharedReceiveQueue& /*srq*/) {
  if (listener != nullptr) listener->on_srq_limit();
}

void EngineCore::on_error_completion(const Qp& /*qp*/, const Completion& completion) {
  if (listener != nullptr) listener->on_error_completion(completion);
}

void EngineCore::on_responder_error(const Qp& qp, Cause cause) {
  if (listener != nullptr) listener->on_refused_request(qp.qpn(), cause);
}

}  // namespace uroce::rdma
