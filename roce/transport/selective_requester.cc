// The part of the requester that is used with peers that know selective repeat: it takes selective ACKs, and sends
// exactly the lost packets again.
#include "transport/request_encoder.h"
#include "transport/requester.h"

namespace uroce {

Outcome Requester::on_selective_ack(const PacketView& packet, Instant now) {
  // From a peer that does not know selective repeat this is an unknown opcode. But it may also be the first packet from
  // a peer that does.
  if (!selective_ || !(context_.peer.selective() || packet.signed_with(context_.peer_signature))) {
    context_.counters().rx_drop_unknown_opcode++;
    return Outcome::kGoesOn;
  }
  const Aeth aeth = packet.aeth();
  if (aeth_kind(aeth.syndrome) != AethKind::kAck || !sack_length_holds(packet.payload_bytes)) {
    context_.counters().rx_drop_bad_sack++;
    return Outcome::kGoesOn;
  }
  const Psn next = packet.bth.psn + 1;
  if (!window_.outstanding(packet.bth.psn) && next != window_.una()) {
    context_.counters().rx_drop_ghost_ack++;
    return Outcome::kGoesOn;
  }
  context_.counters().rx_sack++;
  credits_.learn(aeth);
  const Reached reached = acknowledge(next, now);
  if (reached == Reached::kFailed) return Outcome::kFailed;
  SelectiveRepeat& selective = *selective_;
  if (selective.requests.on_expects(next)) context_.rate.on_loss(now);
  // The ranges of an old selective ACK may not be true any more.
  if (next.before(selective.requests.delivered())) return Outcome::kGoesOn;
  apply(selective.requests.on_ranges(packet, window_.high(), now), now);
  selective.probe.on_activity(now);
  if (reached == Reached::kBlocked) selective.responses.on_answer_beyond(now);
  return Outcome::kGoesOn;
}

void Requester::apply(const RequestRecovery::News& news, Instant now) {
  context_.rate.on_rtt(news.rtt, now);
  if (news.loss) context_.rate.on_loss(now);
  context_.counters().spurious_retransmits += news.spurious;
  if (news.impossible_range) context_.counters().rx_drop_bad_sack++;
}

/// Holds a response that is not the one waited for.
void Requester::hold_response(const PacketView& packet, Instant now) {
  switch (selective_->responses.hold(packet, now)) {
    case ReorderBuffer::Result::kHeld:
      context_.counters().rx_out_of_order_held++;
      return;
    case ReorderBuffer::Result::kAgain:
      context_.counters().rx_drop_held_already++;
      return;
    case ReorderBuffer::Result::kFull:
      context_.counters().rx_drop_reorder_full++;
      return;
  }
}

/// Responses that are held, and requests that the peer is known to have carried out, may have their turn now.
Outcome Requester::take_held(Instant now) {
  SelectiveRepeat& selective = *selective_;
  if (!selective.responses.has_gap()) return Outcome::kGoesOn;
  const Psn before = window_.una();
  while (!ring_.empty()) {
    if (acknowledge(selective.requests.delivered(), now) == Reached::kFailed) return Outcome::kFailed;
    PacketView packet;
    if (!selective.responses.take(packet)) break;
    const Psn at = window_.una();
    if (on_data_response(packet, now) == Outcome::kFailed) return Outcome::kFailed;
    if (window_.una() == at) break;  // the response does not belong there: it was dropped, and will be asked for
  }
  selective.after_taking(window_.una() != before, now);
  return Outcome::kGoesOn;
}

bool Requester::wants_beside_cursor() const {
  const bool running = context_.state == QpState::kRts || context_.state == QpState::kSqd;
  return running && !timer_.awaits_receive() && selective_->wants_transmit();
}

bool Requester::poll_beside_cursor(TxFrame& frame, Instant now) {
  if (selective_->responses.wants_transmit()) {
    const auto ask = selective_->responses.take_ask();
    if (ask && ask_again(*ask, frame, now)) return true;
  }
  const auto resend = selective_->take_resend();
  return resend && send_again(*resend, frame, now);
}

bool Requester::send_again(const RequestRecovery::Resend& resend, TxFrame& frame, Instant now) {
  if (resend.work - ring_.head() >= ring_.size()) {
    rewind();  // its work request is gone, so the board is wrong, and is made anew
    return false;
  }
  const SendWqe& wqe = ring_.at(resend.work);
  const auto index = static_cast<uint32_t>(distance(wqe.first_psn, resend.psn));
  if (encode_request(context_, wqe, index, resend.psn, AckRequest::kYes, frame) != Cause::kNone) {
    rewind();  // the cursor comes to it in its turn, and the error is reported then
    return false;
  }
  selective_->requests.on_sent_again(resend, now);
  context_.counters().retransmits++;
  if (resend.probe) {
    context_.counters().tail_loss_probes++;
  } else {
    context_.counters().selective_retransmits++;
  }
  return true;
}

bool Requester::ask_again(const ResponseRecovery::Ask& ask, TxFrame& frame, Instant now) {
  const SendWqe& wqe = ring_.at(ask.work);
  if (encode_request(context_, wqe, ask.index, ask.psn, AckRequest::kYes, frame, ask.packets) != Cause::kNone)
    return false;
  context_.counters().retransmits++;
  context_.counters().response_gaps_asked++;
  selective_->on_asked(ask, now);
  return true;
}

}  // namespace uroce
