// Congestion control of a QP: the rate that it keeps to, and the CNPs that it sends to its peer.
//
// Requests and READ responses are data and keep to the rate. ACKs, NAKs, atomic results and CNPs never wait for it.
#include <algorithm>

#include "transport/frame_builder.h"
#include "transport/qp.h"
#include "transport/qp_services.h"

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
void Qp::set_headers(const Route& path) {
  context_.path = path;
  context_.header = RouteHeader(path);
  Route data = path;
  if (congestion() != nullptr && (path.traffic_class & kEcnMask) == 0) data.traffic_class |= kEct0;
  context_.data_header = RouteHeader(data);
}

void Qp::restart_congestion() {
  context_.rate.start(context_.mtu);
  cnp_allowed_at_ = {0};
}

PollResult Qp::transmit_paced(TxFrame& frame, Instant now) {
  SendRate& rate = context_.rate;
  rate.follow(now);
  if (!rate.limited()) return transmit(service_, frame, now);  // the rate recovered while the QP was silent
  if (rate.closed()) {
    if (!wants_unpaced()) return {};
    return serve(service_, [&](auto& service) { return service.poll_answer(frame); });
  }
  const PollResult polled = transmit(service_, frame, now);
  // Datagrams have the headers of their address handles, and all are data.
  const bool data =
      polled.frame && (!connected() || is_data(opcode_info(frame.data[context_.header.bytes()]).operation));
  if (data) rate.on_sent(frame.bytes, now);
  return polled;
}

bool Qp::wants_unpaced() const {
  return serve(service_, [](auto& service) { return service.wants_answer(); });
}

bool Qp::poll_unpaced(TxFrame& frame, Instant now) {
  if (!wants_unpaced()) return false;
  const PollResult polled = serve(service_, [&](auto& service) { return service.poll_answer(frame); });
  settle(polled.outcome, now);
  return polled.frame;
}

bool Qp::on_cnp(Instant now) {
  if (!context_.rate.on_cnp(now)) return false;
  context_.counters().rp_cnp_handled++;
  return true;
}

bool Qp::on_marked(Instant now) {
  if (now < cnp_allowed_at_) return false;
  cnp_allowed_at_ = now + microseconds(context_.env.congestion.notification.min_time_between_cnps);
  return true;
}

bool Qp::encode_cnp(TxFrame& frame) const {
  const QpState s = context_.state;
  if (s != QpState::kRtr && s != QpState::kRts && s != QpState::kSqd && s != QpState::kSqe) return false;
  const NotificationConfig& config = context_.env.congestion.notification;
  Route path = context_.path;
  path.traffic_class = static_cast<uint8_t>(config.cnp_dscp << 2);  // ECN bits 0: a CNP is never marked
  if (path.vlan_id != 0) path.pcp = static_cast<uint8_t>(config.cnp_802p_prio);
  const RouteHeader header(path);
  Bth bth;
  bth.opcode = kOpcodeCnp;
  bth.resv8a = kBecn;
  bth.dest_qp = context_.attributes.dest_qpn;
  FrameBuilder builder(frame, header, bth, kCnpReservedBytes, 0);
  std::fill_n(builder.ext(), kCnpReservedBytes, uint8_t{0});
  builder.finish();
  return true;
}

}  // namespace uroce
