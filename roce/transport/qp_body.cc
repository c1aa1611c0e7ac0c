#include "transport/qp_body.h"

#include "transport/rendezvous.h"

namespace uroce {

QpBody::QpBody(Qp& owner, const QpInit& how, uint32_t qpn, uint32_t mtu_most, TransportEnv& env, QpService its_service)
    : context(owner, how, qpn, env),
      sends(how.cap, how.send_memory, device_work_of(how)),
      receives(context.own_receives ? how.cap.max_recv_wr : 0, how.cap.max_recv_sge, how.receive_memory),
      service(its_service),
      init(how),
      port_mtu(mtu_most) {
  context.mtu = port_mtu;
}

namespace {

template <typename Service>
struct BodyWith final : QpBody {
  BodyWith(Qp& owner, const QpInit& how, uint32_t qpn, uint32_t mtu_most, TransportEnv& env)
      : QpBody(owner, how, qpn, mtu_most, env, &it), it(context, sends, receives) {}
  Service it;
};

}  // namespace

std::unique_ptr<QpBody> make_body(Qp& owner, const QpInit& how, uint32_t qpn, uint32_t mtu_most, TransportEnv& env) {
  switch (how.type) {
    case QpType::kUc:
      return std::make_unique<BodyWith<UnackedService<UcReceiver>>>(owner, how, qpn, mtu_most, env);
    case QpType::kUd:
      return std::make_unique<BodyWith<UnackedService<UdReceiver>>>(owner, how, qpn, mtu_most, env);
    case QpType::kRawPacket:
      return std::make_unique<BodyWith<UnackedService<RawReceiver>>>(owner, how, qpn, mtu_most, env);
    default:
      return std::make_unique<BodyWith<ReliableService>>(owner, how, qpn, mtu_most, env);
  }
}

void QpBody::make_room(const QpAttributes& attributes, uint32_t mask, QpState to) {
  if ((mask & kAttrMaxDestRdAtomic) == 0) return;
  serve(service, [&](auto& it) { it.make_room(to, attributes.max_dest_rd_atomic); });
}

void QpBody::apply(const QpAttributes& a, uint32_t mask, const Route* path, bool resolved, Instant now) {
  const auto has = [mask](QpAttrMask bit) { return (mask & bit) != 0; };
  QpAttributes& to = context.attributes;
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
    context.rate.set_limit(uint64_t{a.rate_limit_kbps} * 1000, now);
  }
  if (has(kAttrPathMtu)) context.mtu = a.path_mtu_bytes;
  if (has(kAttrAv)) {
    to.av = a.av;
    set_headers(*path);
    context.path_resolved = resolved;
  }
  if (has(kAttrAv) && context.peer.enabled()) {
    const Signature ours(context.qpn, to.dest_qpn);
    context.header.sign(ours);
    context.data_header.sign(ours);
    context.peer_signature = Signature(to.dest_qpn, context.qpn);
  }
}

void QpBody::enter(QpState to, Instant now) {
  const QpState from = context.state;
  if (to == QpState::kErr || to == QpState::kReset) hide(service);
  context.state = to;
  draining = to == QpState::kSqd;
  switch (to) {
    case QpState::kReset:
      forget_work();
      context.events.reset();
      context.attributes = QpAttributes{};
      context.rate.set_limit(0, now);
      context.path_resolved = false;
      context.peer.forget();
      context.mtu = port_mtu;
      restart_congestion();
      break;
    case QpState::kRtr:
      restart_congestion();
      serve(service, [](auto& it) { it.start_receiving(); });
      break;
    case QpState::kRts:
      if (from == QpState::kRtr) serve(service, [](auto& it) { it.start_sending(); });
      break;
    case QpState::kErr:
      serve(service, [](auto& it) { it.silence(); });  // the program ended the QP: nothing more is sent
      flush(now);
      // Raised once: UCX aborts a program that gets it again when the program itself moves a failed QP to ERR.
      if (from != QpState::kErr && init.srq != nullptr) context.events.raise(AsyncEvent::kQpLastWqeReached);
      break;
    default:
      break;
  }
}

void QpBody::forget_work() {
  if (init.send_cq != nullptr) init.send_cq->remove(context.qpn);
  if (init.recv_cq != nullptr) init.recv_cq->remove(context.qpn);
  hide(service);
  forget_rendezvous(context, sends);
  sends.clear();
  receives.clear();
  serve(service, [](auto& it) { it.reset(); });
}

void QpBody::flush(Instant now) {
  serve(service, [now](auto& it) {
    it.flush_sends(now);
    it.flush_receives(now);
  });
}

void QpBody::change_state(Outcome outcome, Instant now) {
  const QpState s = context.state;
  if (outcome == Outcome::kFailed && s != QpState::kErr && s != QpState::kReset) {
    hide(service);
    context.state = QpState::kErr;
    draining = false;
    flush(now);
    if (init.srq != nullptr) context.events.raise(AsyncEvent::kQpLastWqeReached);
  } else if (outcome == Outcome::kSendQueueFailed && (s == QpState::kRts || s == QpState::kSqd)) {
    context.state = QpState::kSqe;
    serve(service, [now](auto& it) { it.flush_sends(now); });
  }
  if (draining) check_drained();
}

void QpBody::check_drained() {
  if (!serve(service, [](auto& it) { return it.drained(); })) return;
  draining = false;
  if (context.attributes.sqd_async_notify) context.events.raise(AsyncEvent::kSqDrained);
}

}  // namespace uroce
