#include "transport/qp.h"

#include <algorithm>

#include "transport/address_handle.h"
#include "transport/qp_services.h"
#include "transport/qp_transitions.h"
#include "transport/rendezvous.h"

namespace uroce {

Qp::Qp(const QpInit& init, uint32_t qpn, uint32_t index, uint32_t port_mtu, TransportEnv& env, void* user)
    : context_(*this, init, qpn, env),
      init_(init),
      index_(index),
      port_mtu_(port_mtu),
      user_(user),
      send_queue_(init.cap, init.send_memory, device_work_of(init)),
      receive_queue_(context_.own_receives ? init.cap.max_recv_wr : 0, init.cap.max_recv_sge, init.receive_memory),
      service_(make_service(context_, send_queue_, receive_queue_)) {
  context_.mtu = port_mtu;
}

Qp::~Qp() = default;

void Qp::end_ack_delay() {
  serve(service_, [](auto& service) { service.end_ack_delay(); });
}
bool Qp::asks_in_vain() const {
  const Requester* const asks = requester();
  return asks != nullptr && asks->retry_timer().timed_out();
}
const Requester* Qp::requester() const {
  const auto* const reliable = std::get_if<std::unique_ptr<ReliableService>>(&service_);
  return reliable != nullptr ? &(*reliable)->requester() : nullptr;
}
const Responder* Qp::responder() const {
  const auto* const reliable = std::get_if<std::unique_ptr<ReliableService>>(&service_);
  return reliable != nullptr ? &(*reliable)->responder() : nullptr;
}

QpAttributes Qp::attributes() const {
  QpAttributes a = context_.attributes;
  a.state = a.cur_state = context_.state;
  a.path_mtu_bytes = context_.mtu;
  a.sq_draining = draining_;
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
    if (!known || m > port_mtu_) return ModifyResult::kBadValue;
  }
  return ModifyResult::kOk;
}

ModifyResult Qp::modify(const QpAttributes& attributes, uint32_t mask, const Route* path, bool resolved, Instant now) {
  const QpState from = context_.state;
  if ((mask & kAttrCurState) != 0 && attributes.cur_state != from) return ModifyResult::kBadTransition;
  const QpState to = (mask & kAttrState) != 0 ? attributes.state : from;
  ModifyResult result = check_transition(context_.type, from, to, mask);
  if (result == ModifyResult::kOk) result = check_values(attributes, mask);
  if (result != ModifyResult::kOk) return result;
  if ((mask & kAttrAv) != 0 && path == nullptr) return ModifyResult::kNoRoute;
  make_room(attributes, mask, to);
  apply(attributes, mask, path, resolved, now);
  if (to != from || to == QpState::kErr) enter(to, now);
  settle(Outcome::kGoesOn, now);
  serve(service_, [](auto& service) { service.show(); });
  return ModifyResult::kOk;
}

/// Makes all allocations of a transition before anything changes, so that a lack of memory leaves the QP as it was.
void Qp::make_room(const QpAttributes& attributes, uint32_t mask, QpState to) {
  if ((mask & kAttrMaxDestRdAtomic) == 0) return;
  serve(service_, [&](auto& service) { service.make_room(to, attributes.max_dest_rd_atomic); });
}

void Qp::apply(const QpAttributes& a, uint32_t mask, const Route* path, bool resolved, Instant now) {
  const auto has = [mask](QpAttrMask bit) { return (mask & bit) != 0; };
  QpAttributes& to = context_.attributes;
  if (has(kAttrAccessFlags)) to.access = a.access;
  if (has(kAttrPkeyIndex)) to.pkey_index = a.pkey_index;
  if (has(kAttrPort)) to.port_num = a.port_num;
  if (has(kAttrQkey)) to.qkey = a.qkey;
  if (has(kAttrTimeout)) to.timeout = a.timeout;
  if (has(kAttrRetryCnt)) to.retry_cnt = a.retry_cnt;
  if (has(kAttrRnrRetry)) to.rnr_retry = a.rnr_retry;
  if (has(kAttrRqPsn)) to.rq_psn = a.rq_psn;
  if (has(kAttrSqPsn)) to.sq_psn = a.sq_psn;
  if (has(kAttrMaxQpRdAtomic)) to.max_rd_atomic = a.max_rd_atomic;
  if (has(kAttrMaxDestRdAtomic)) to.max_dest_rd_atomic = a.max_dest_rd_atomic;
  if (has(kAttrMinRnrTimer)) to.min_rnr_timer = a.min_rnr_timer;
  if (has(kAttrDestQpn)) to.dest_qpn = a.dest_qpn;
  if (has(kAttrEnSqdAsyncNotify)) to.sqd_async_notify = a.sqd_async_notify;
  if (has(kAttrRateLimit)) {
    to.rate_limit_kbps = a.rate_limit_kbps;
    context_.rate.set_limit(uint64_t{a.rate_limit_kbps} * 1000, now);
  }
  if (has(kAttrPathMtu)) context_.mtu = a.path_mtu_bytes;
  if (has(kAttrAv)) {
    to.av = a.av;
    set_headers(*path);
    context_.path_resolved = resolved;
  }
  if (has(kAttrAv) && context_.peer.enabled()) {
    const Signature ours(context_.qpn, to.dest_qpn);
    context_.header.sign(ours);
    context_.data_header.sign(ours);
    context_.peer_signature = Signature(to.dest_qpn, context_.qpn);
  }
}

void Qp::enter(QpState to, Instant now) {
  const QpState from = context_.state;
  if (to == QpState::kErr || to == QpState::kReset) hide(service_);
  context_.state = to;
  draining_ = to == QpState::kSqd;
  switch (to) {
    case QpState::kReset:
      forget_work();
      context_.events.reset();
      context_.attributes = QpAttributes{};
      context_.rate.set_limit(0, now);
      context_.path_resolved = false;
      context_.peer.forget();
      context_.mtu = port_mtu_;
      restart_congestion();
      break;
    case QpState::kRtr:
      restart_congestion();
      serve(service_, [](auto& service) { service.start_receiving(); });
      break;
    case QpState::kRts:
      if (from == QpState::kRtr) serve(service_, [](auto& service) { service.start_sending(); });
      break;
    case QpState::kErr:
      serve(service_, [](auto& service) { service.silence(); });  // the program ended the QP: nothing more is sent
      flush(now);
      // Raised once: UCX aborts a program that gets it again when the program itself moves a failed QP to ERR.
      if (from != QpState::kErr && init_.srq != nullptr) context_.events.raise(AsyncEvent::kQpLastWqeReached);
      break;
    default:
      break;
  }
}

void Qp::forget_xrc_queue(const SharedReceiveQueue& queue) {
  if (context_.type != QpType::kXrcRecv || context_.srq != &queue) return;
  serve(service_, [](auto& service) { service.forget_xrc_queue(); });
}

void Qp::forget_work() {
  if (init_.send_cq != nullptr) init_.send_cq->remove(context_.qpn);
  if (init_.recv_cq != nullptr) init_.recv_cq->remove(context_.qpn);
  hide(service_);
  forget_rendezvous(context_, send_queue_);
  send_queue_.clear();
  receive_queue_.clear();
  serve(service_, [](auto& service) { service.reset(); });
}

/// Completes the work requests of both queues as flushed, each queue in order.
void Qp::flush(Instant now) {
  serve(service_, [now](auto& service) {
    service.flush_sends(now);
    service.flush_receives(now);
  });
}

/// The outcome of a call takes effect at its end: the QP or its send queue goes to error, or the send queue is drained.
void Qp::settle(Outcome outcome, Instant now) {
  if (outcome == Outcome::kGoesOn && !draining_) return;
  const QpState s = context_.state;
  if (outcome == Outcome::kFailed && s != QpState::kErr && s != QpState::kReset) {
    hide(service_);
    context_.state = QpState::kErr;
    draining_ = false;
    flush(now);
    if (init_.srq != nullptr) context_.events.raise(AsyncEvent::kQpLastWqeReached);
  } else if (outcome == Outcome::kSendQueueFailed && (s == QpState::kRts || s == QpState::kSqd)) {
    context_.state = QpState::kSqe;
    serve(service_, [now](auto& service) { service.flush_sends(now); });
  }
  if (draining_) check_drained();
}

void Qp::check_drained() {
  if (!serve(service_, [](auto& service) { return service.drained(); })) return;
  draining_ = false;
  if (context_.attributes.sqd_async_notify) context_.events.raise(AsyncEvent::kSqDrained);
}

void Qp::on_path_resolved(const MacAddress& mac) {
  const bool news = !context_.path_resolved || context_.path.dst_mac != mac;
  context_.path.dst_mac = mac;
  context_.header.set_dst_mac(mac);
  context_.data_header.set_dst_mac(mac);
  context_.path_resolved = true;
  if (news) serve(service_, [](auto& service) { service.on_path_resolved(); });
}

PeerLink& Qp::lead_link() {
  if (connected()) {
    link_.lead_to(context_.path.dst_mac, context_.attributes.dest_qpn);
  } else if (context_.type == QpType::kUd && !send_queue_.ring().empty()) {
    const SendWqe& next = send_queue_.ring().front();
    link_.lead_to(next.ah->path.dst_mac, next.remote_qpn);
  }
  return link_;
}

PostResult Qp::post_sends(std::span<const SendWr> wrs, Instant now) {
  const QpState s = context_.state;
  if (s == QpState::kReset || s == QpState::kInit || s == QpState::kRtr) return PostResult::kBadState;
  for (const SendWr& wr : wrs) {
    const PostResult result = send_queue_.check(wr, context_.type, context_.mtu);
    if (result != PostResult::kOk) return result;
  }
  if (send_queue_.room() < wrs.size()) return PostResult::kQueueFull;
  for (uint32_t i = 0; i < wrs.size(); i++) {
    if (!send_queue_.take_inline_data(wrs[i], i)) return PostResult::kInlineNotThere;
  }
  for (const SendWr& wr : wrs) {
    send_queue_.push(wr, context_.type, context_.mtu);
    if (init_.sq_sig_all) send_queue_.ring().at(send_queue_.ring().tail() - 1).flags |= kSendSignaled;
  }
  if (s == QpState::kErr || s == QpState::kSqe) {
    // Posting to a failed queue is allowed; the work completes at once, as flushed.
    serve(service_, [now](auto& service) { service.flush_sends(now); });
  } else {
    serve(service_, [](auto& service) { service.on_send_posted(); });
  }
  return PostResult::kOk;
}

PostResult Qp::post_recv(const RecvWr& wr, Instant now) {
  if (context_.state == QpState::kReset || !context_.own_receives) return PostResult::kBadState;
  const PostResult result = receive_queue_.post(wr);
  if (result != PostResult::kOk) return result;
  if (context_.state == QpState::kErr) {
    serve(service_, [now](auto& service) { service.flush_receives(now); });
  } else {
    serve(service_, [](auto& service) { service.on_receive_posted(); });
  }
  return PostResult::kOk;
}

void Qp::on_packet(const PacketView& packet, Instant now) {
  const Outcome outcome = serve(service_, [&](auto& service) { return service.on_packet(packet, now); });
  context_.rate.settle(now);
  settle(outcome, now);
}

void Qp::on_frame(const RawFrame& frame, Instant now) {
  const auto* const raw = std::get_if<std::unique_ptr<UnackedService<RawReceiver>>>(&service_);
  if (raw != nullptr) settle((*raw)->receiver().on_frame(frame, now), now);
}

void Qp::on_timeout(Instant now) {
  if (context_.rate.closed()) context_.rate.follow(now);
  const Outcome outcome = serve(service_, [now](auto& service) { return service.on_timeout(now); });
  context_.rate.settle(now);
  settle(outcome, now);
}

bool Qp::poll_transmit(TxFrame& frame, Instant now) {
  const PollResult polled = context_.rate.limited() ? transmit_paced(frame, now) : transmit(service_, frame, now);
  settle(polled.outcome, now);
  return polled.frame;
}

bool Qp::wants_transmit() const {
  if (context_.rate.closed()) return wants_unpaced();
  return serve(service_, [](auto& service) { return service.wants_transmit(); });
}

uint8_t Qp::priority() const {
  if (context_.type == QpType::kRawPacket) return 0;
  if (context_.type != QpType::kUd) return context_.path.priority();
  const auto& queue = send_queue_.ring();
  return queue.empty() ? 0 : queue.front().ah->path.priority();
}

Instant Qp::next_timeout() const {
  Instant next = Instant::never();
  const auto wants_paced = [](auto& service) { return service.wants_data(); };
  if (context_.rate.closed() && serve(service_, wants_paced)) next = context_.rate.next_timeout();
  return std::min(next, serve(service_, [](auto& service) { return service.next_timeout(); }));
}

}  // namespace uroce
