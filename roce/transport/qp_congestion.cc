// What congestion does to a QP: the rate it keeps to, and the news that it sends to its peer.
//
// Requests and READ responses are data and keep to the rate. ACKs, NAKs, atomic results and CNPs never wait for it.
#include <algorithm>

#include "transport/frame_builder.h"
#include "transport/qp.h"

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

/// A program that chose an ECN codepoint itself keeps it. Datagrams are not marked: nobody would react.
void Qp::set_headers(const PathSpec& path) {
  context_.path = path;
  context_.header = PathHeader(path);
  PathSpec data = path;
  if (congestion_ != nullptr && (path.traffic_class & kEcnMask) == 0) data.traffic_class |= kEct0;
  context_.data_header = PathHeader(data);
}

void Qp::restart_congestion() {
  pacer_.reset();
  paced_ = pacer_closed_ = false;
  cnp_allowed_at_ = {0};
  if (congestion_ == nullptr) return;
  congestion_->start(context_.mtu);
  follow_congestion({0});
}

/// What congestion control allows takes effect.
void Qp::follow_congestion(Instant now) {
  context_.congestion_news = false;
  congestion_->advance(now);
  const CongestionConfig& config = context_.env.congestion;
  pacer_.set_rate(congestion_->rate_bits_per_second(), config.burst_bytes, now);
  paced_ = pacer_.limited();
  pacer_closed_ = paced_ && !pacer_.open(now);
  const uint64_t window = congestion_->window_bytes();
  const uint64_t packets = (window + context_.mtu - 1) / context_.mtu;
  context_.window_cap_packets = window == 0 ? UINT32_MAX : static_cast<uint32_t>(std::min<uint64_t>(packets, 1u << 22));
}

bool Qp::transmit_paced(TxFrame& frame, Instant now) {
  follow_congestion(now);
  if (!paced_) return transmit(frame, now);  // recovered while it was silent
  if (pacer_closed_) return wants_unpaced() && responder_.poll_transmit(frame, now);
  if (!transmit(frame, now)) return false;
  if (!is_data(opcode_info(frame.data[context_.header.bytes()]).operation)) return true;
  pacer_.on_sent(frame.bytes, now);
  congestion_->on_sent(frame.bytes, now);
  pacer_closed_ = !pacer_.open(now);
  return true;
}

bool Qp::wants_unpaced() const {
  return context_.type == QpType::kRc && responder_.wants_transmit() && !responder_.next_is_read_response();
}

bool Qp::wants_paced() const {
  if (context_.type != QpType::kRc) return sender_.wants_transmit();
  return requester_.wants_transmit() || responder_.next_is_read_response();
}

bool Qp::on_cnp(Instant now) {
  if (congestion_ == nullptr || !congestion_->takes_cnps()) return false;
  context_.counters().rp_cnp_handled++;
  congestion_->on_cnp(now);
  follow_congestion(now);
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
  PathSpec path = context_.path;
  path.traffic_class = static_cast<uint8_t>(config.cnp_dscp << 2);  // and no ECN: a CNP is never marked
  if (path.vlan_id != 0) path.pcp = static_cast<uint8_t>(config.cnp_802p_prio);
  const PathHeader header(path);
  Bth bth;
  bth.opcode = kOpcodeCnp;
  bth.resv8a = kBecn;
  bth.dest_qp = context_.attributes.dest_qpn;
  FrameBuilder builder(frame, header, bth, kCnpReservedBytes, 0);
  std::fill_n(builder.ext(), kCnpReservedBytes, uint8_t{0});
  builder.begin_payload();
  builder.finish();
  return true;
}

}  // namespace uroce
