// Congestion control of a QP: the rate that it keeps to, and the CNPs that it sends to its peer.
//
// Requests and READ responses are data and keep to the rate. ACKs, NAKs, atomic results and CNPs never wait for it.
#include <algorithm>

#include "transport/frame_builder.h"
#include "transport/qp.h"
#include "transport/qp_body.h"

namespace uroce {

namespace {

constexpr uint8_t kEcnMask = 3;
constexpr uint8_t kEct0 = 2;
constexpr uint8_t kBecn = 0x40;
constexpr uint32_t kCnpReservedBytes = 16;

bool is_data(Operation operation) {
  return operation != Operation::kAcknowledge && operation != Operation::kSelectiveAck &&
         operation != Operation::kAtomicAcknowledge;
}

}  // namespace

/// Marks data as ECN-capable, unless the program chose an ECN codepoint itself. Datagrams are left alone, because they
/// have no congestion control that would react.
void QpBody::set_headers(const Route& path) {
  context.path = path;
  context.header = RouteHeader(path);
  Route data = path;
  if (context.rate.control() != nullptr && (path.traffic_class & kEcnMask) == 0) data.traffic_class |= kEct0;
  context.data_header = RouteHeader(data);
}

const CongestionControl* Qp::congestion() const { return body_->context.rate.control(); }

void QpBody::restart_congestion() {
  context.rate.start(context.mtu);
  cnp_allowed_at = {0};
}

PollResult QpBody::transmit_paced(TxFrame& frame, Instant now) {
  SendRate& rate = context.rate;
  rate.follow(now);
  if (!rate.limited()) return transmit(service, frame, now);  // the rate recovered while the QP was silent
  if (rate.closed()) {
    if (!wants_unpaced()) return {};
    return serve(service, [&](auto& it) { return it.poll_answer(frame); });
  }
  const PollResult polled = transmit(service, frame, now);
  // Datagrams have the headers of their address handles, and all are data.
  const bool data =
      polled.frame && (is_datagram(context.type) || is_data(opcode_info(frame.data[context.header.bytes()]).operation));
  if (data) rate.on_sent(frame.bytes, now);
  return polled;
}

bool QpBody::wants_unpaced() const {
  return serve(service, [](auto& it) { return it.wants_answer(); });
}

bool QpBody::wants_paced() const {
  return serve(service, [](auto& it) { return it.wants_data(); });
}

bool Qp::owes_answer() const {
  const Responder* const answers = responder();
  return answers != nullptr && answers->wants_transmit();
}

bool Qp::wants_unpaced() const { return body_->wants_unpaced(); }

bool Qp::poll_unpaced(TxFrame& frame, Instant now) {
  if (!wants_unpaced()) return false;
  const PollResult polled = serve(body_->service, [&](auto& it) { return it.poll_answer(frame); });
  body_->settle(polled.outcome, now);
  return polled.frame;
}

bool Qp::on_cnp(Instant now) {
  if (!body_->context.rate.on_cnp(now)) return false;
  body_->context.counters().rp_cnp_handled++;
  return true;
}

bool Qp::on_marked(Instant now) {
  if (now < body_->cnp_allowed_at) return false;
  body_->cnp_allowed_at = now + microseconds(body_->context.env.congestion.notification.min_time_between_cnps);
  return true;
}

bool Qp::encode_cnp(TxFrame& frame) const {
  const QpState s = body_->context.state;
  if (s != QpState::kRtr && s != QpState::kRts && s != QpState::kSqd && s != QpState::kSqe) return false;
  const NotificationConfig& config = body_->context.env.congestion.notification;
  Route path = body_->context.path;
  path.traffic_class = static_cast<uint8_t>(config.cnp_dscp << 2);  // ECN bits 0: a CNP is never marked
  if (path.vlan_id != 0) path.pcp = static_cast<uint8_t>(config.cnp_802p_prio);
  const RouteHeader header(path);
  Bth bth;
  bth.opcode = kOpcodeCnp;
  bth.resv8a = kBecn;
  bth.dest_qp = body_->context.attributes.dest_qpn;
  FrameBuilder builder(frame, header, bth, kCnpReservedBytes, 0);
  std::fill_n(builder.ext(), kCnpReservedBytes, uint8_t{0});
  builder.finish();
  return true;
}

}  // namespace uroce
