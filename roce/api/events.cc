#include "uroce/events.h"

#include "api/device_core.h"
#include "api/held_channel.h"
#include "dpdk/endpoint.h"
#include "transport/completion_queue.h"

namespace uroce::rdma {

EventListener::~EventListener() = default;
void EventListener::on_qp_event(uint32_t /*qp_num*/, AsyncEvent /*event*/) {}
void EventListener::on_port_event(AsyncEvent /*event*/) {}
void EventListener::on_cq_error() {}
void EventListener::on_srq_limit() {}
void EventListener::on_error_completion(const Completion& /*completion*/) {}
void EventListener::on_refused_request(uint32_t /*qp_num*/, Cause /*cause*/) {}

Instant DeviceCore::now() const { return endpoint != nullptr ? endpoint->now() : told; }

void DeviceCore::on_cq_event(uroce::CompletionQueue& cq) {
  if (cq.user() != nullptr) static_cast<const HeldCompletionChannel*>(cq.user())->add();
}

void DeviceCore::on_qp_event(Qp& qp, AsyncEvent event) {
  if (listener != nullptr) listener->on_qp_event(qp.qpn(), event);
}

void DeviceCore::on_port_event(AsyncEvent event) {
  if (listener != nullptr) listener->on_port_event(event);
}

void DeviceCore::on_cq_error(uroce::CompletionQueue& /*cq*/) {
  if (listener != nullptr) listener->on_cq_error();
}

void DeviceCore::on_srq_limit(uroce::SharedReceiveQueue& /*srq*/) {
  if (listener != nullptr) listener->on_srq_limit();
}

void DeviceCore::on_error_completion(const Qp& /*qp*/, const Completion& completion) {
  if (listener != nullptr) listener->on_error_completion(completion);
}

void DeviceCore::on_responder_error(const Qp& qp, Cause cause) {
  if (listener != nullptr) listener->on_refused_request(qp.qpn(), cause);
}

}  // namespace uroce::rdma
