#include "transport/qp.h"

#include <algorithm>

#include "transport/address_handle.h"
#include "transport/qp_body.h"
#include "transport/qp_transitions.h"

namespace uroce {

Qp::Qp(const QpInit& init, uint32_t qpn, uint32_t index, uint32_t port_mtu, TransportEnv& env, void* user)
    : index_(index), user_(user), body_(make_body(*this, init, qpn, port_mtu, env)), core_(body_->context) {}

Qp::~Qp() = default;

void Qp::end_ack_delay() {
  serve(body_->service, [](auto& service) { service.end_ack_delay(); });
}
bool Qp::asks_in_vain() const {
  const Requester* const asks = requester();
  return asks != nullptr && asks->retry_timer().timed_out();
}
const Requester* Qp::requester() const {
  const auto* const reliable = std::get_if<ReliableService*>(&body_->service);
  return reliable != nullptr ? &(*reliable)->requester() : nullptr;
}
const Responder* Qp::responder() const {
  const auto* const reliable = std::get_if<ReliableService*>(&body_->service);
  return reliable != nullptr ? &(*reliable)->responder() : nullptr;
}

const QpInit& Qp::init() const { return body_->init; }
const SendQueue& Qp::send_queue() const { return body_->sends; }
uint32_t Qp::sends_queued() const { return body_->sends.ring().size(); }
uint32_t Qp::receives_queued() const { return body_->receives.size(); }
const std::optional<FirstError>& Qp::first_error() const { return body_->context.events.first_error(); }

QpAttributes Qp::attributes() const {
  QpAttributes a = body_->context.attributes;
  a.state = a.cur_state = body_->context.state;
  a.path_mtu_bytes = body_->context.mtu;
  a.sq_draining = body_->draining;
  return a;
}

ModifyResult Qp::check_values(const QpAttributes& a, uint32_t mask) const {
  const auto has = [mask](QpAttrMask bit) { return (mask & bit) != 0; };
  if (has(kAttrPort) && a.port_num != 1) return ModifyResult::kBadValue;
  if (has(kAttrPkeyIndex) && a.pkey_index != 0) return ModifyResult::kBadValue;
  if (has(kAttrTimeout) && a.timeout > 31) return ModifyResult::kBadValue;
  if (has(kAttrRetryCnt) && a.retry_cnt > 7) return ModifyResult::kBadValue;
  if (has(kAttrRnrRetry) && a.rnr_retry > 7) return ModifyResult::kBadValue;
  if (has(kAttrMinRnrTimer) && a.min_rnr_timer > 31) return ModifyResult::kBadValue;
  if (has(kAttrDestQpn) && a.dest_qpn > 0xFFFFFF) return ModifyResult::kBadValue;
  if (has(kAttrPathMtu)) {
    const uint32_t m = a.path_mtu_bytes;
    const bool known = m == 256 || m == 512 || m == 1024 || m == 2048 || m == 4096;
    if (!known || m > body_->port_mtu) return ModifyResult::kBadValue;
  }
  return ModifyResult::kOk;
}

ModifyResult Qp::modify(const QpAttributes& attributes, uint32_t mask, const Route* path, bool resolved, Instant now) {
  const QpState from = body_->context.state;
  if ((mask & kAttrCurState) != 0 && attributes.cur_state != from) return ModifyResult::kBadTransition;
  const QpState to = (mask & kAttrState) != 0 ? attributes.state : from;
  ModifyResult result = check_transition(body_->context.type, from, to, mask);
  if (result == ModifyResult::kOk) result = check_values(attributes, mask);
  if (result != ModifyResult::kOk) return result;
  if ((mask & kAttrAv) != 0 && path == nullptr) return ModifyResult::kNoRoute;
  body_->make_room(attributes, mask, to);
  body_->apply(attributes, mask, path, resolved, now);
  if (to != from || to == QpState::kErr) body_->enter(to, now);
  body_->settle(Outcome::kGoesOn, now);
  serve(body_->service, [](auto& service) { service.show(); });
  return ModifyResult::kOk;
}

void Qp::forget_work() { body_->forget_work(); }

void Qp::forget_xrc_queue(const SharedReceiveQueue& queue) {
  if (body_->context.type != QpType::kXrcRecv || body_->context.srq != &queue) return;
  serve(body_->service, [](auto& service) { service.forget_xrc_queue(); });
}

void Qp::on_path_resolved(const MacAddress& mac) {
  const bool news = !body_->context.path_resolved || body_->context.path.dst_mac != mac;
  body_->context.path.dst_mac = mac;
  body_->context.header.set_dst_mac(mac);
  body_->context.data_header.set_dst_mac(mac);
  body_->context.path_resolved = true;
  if (news) serve(body_->service, [](auto& service) { service.on_path_resolved(); });
}

PeerLink& Qp::lead_link() {
  if (connected()) {
    body_->link.lead_to(body_->context.path.dst_mac, body_->context.attributes.dest_qpn);
  } else if (body_->context.type == QpType::kUd && !body_->sends.ring().empty()) {
    const SendWqe& next = body_->sends.ring().front();
    body_->link.lead_to(next.ah->path.dst_mac, next.remote_qpn);
  }
  return body_->link;
}

PostResult Qp::post_sends(std::span<const SendWr> wrs, Instant now) {
  const QpState s = body_->context.state;
  if (s == QpState::kReset || s == QpState::kInit || s == QpState::kRtr) return PostResult::kBadState;
  for (const SendWr& wr : wrs) {
    const PostResult result = body_->sends.check(wr, body_->context.type, body_->context.mtu);
    if (result != PostResult::kOk) return result;
  }
  if (body_->sends.room() < wrs.size()) return PostResult::kQueueFull;
  for (uint32_t i = 0; i < wrs.size(); i++) {
    if (!body_->sends.take_inline_data(wrs[i], i)) return PostResult::kInlineNotThere;
  }
  for (const SendWr& wr : wrs) {
    body_->sends.push(wr, body_->context.type, body_->context.mtu);
    if (body_->init.sq_sig_all) body_->sends.ring().at(body_->sends.ring().tail() - 1).flags |= kSendSignaled;
  }
  if (s == QpState::kErr || s == QpState::kSqe) {
    // Posting to a failed queue is allowed; the work completes at once, as flushed.
    serve(body_->service, [now](auto& service) { service.flush_sends(now); });
  } else {
    serve(body_->service, [](auto& service) { service.on_send_posted(); });
  }
  return PostResult::kOk;
}

PostResult Qp::post_recv(const RecvWr& wr, Instant now) {
  if (body_->context.state == QpState::kReset || !body_->context.own_receives) return PostResult::kBadState;
  const PostResult result = body_->receives.post(wr);
  if (result != PostResult::kOk) return result;
  if (body_->context.state == QpState::kErr) {
    serve(body_->service, [now](auto& service) { service.flush_receives(now); });
  } else {
    serve(body_->service, [](auto& service) { service.on_receive_posted(); });
  }
  return PostResult::kOk;
}

void Qp::on_packet(const PacketView& packet, Instant now) {
  const Outcome outcome = serve(body_->service, [&](auto& service) { return service.on_packet(packet, now); });
  body_->context.rate.settle(now);
  body_->settle(outcome, now);
}

void Qp::on_frame(const RawFrame& frame, Instant now) {
  const auto* const raw = std::get_if<UnackedService<RawReceiver>*>(&body_->service);
  if (raw != nullptr) body_->settle((*raw)->receiver().on_frame(frame, now), now);
}

void Qp::on_timeout(Instant now) {
  if (body_->context.rate.closed()) body_->context.rate.follow(now);
  const Outcome outcome = serve(body_->service, [now](auto& service) { return service.on_timeout(now); });
  body_->context.rate.settle(now);
  body_->settle(outcome, now);
}

bool Qp::poll_transmit(TxFrame& frame, Instant now) {
  const PollResult polled =
      body_->context.rate.limited() ? body_->transmit_paced(frame, now) : transmit(body_->service, frame, now);
  body_->settle(polled.outcome, now);
  return polled.frame;
}

bool Qp::wants_transmit() const {
  if (body_->context.rate.closed()) return body_->wants_unpaced();
  return serve(body_->service, [](auto& service) { return service.wants_transmit(); });
}

uint8_t Qp::priority() const {
  if (body_->context.type == QpType::kRawPacket) return 0;
  if (body_->context.type != QpType::kUd) return body_->context.path.priority();
  const auto& queue = body_->sends.ring();
  return queue.empty() ? 0 : queue.front().ah->path.priority();
}

Instant Qp::next_timeout() const {
  Instant next = Instant::never();
  if (body_->context.rate.closed() && body_->wants_paced()) next = body_->context.rate.next_timeout();
  return std::min(next, serve(body_->service, [](auto& service) { return service.next_timeout(); }));
}

}  // namespace uroce
