// The half of the requester that takes answers and ends work requests.
#include "transport/requester.h"
#include "transport/response_data.h"
#include "transport/timing.h"

namespace uroce {

namespace {

/// The last NAK code that a reliable connection knows. NAKs with higher codes are dropped, with everything that they
/// seem to acknowledge.
constexpr auto kNakCodeLast = static_cast<uint8_t>(NakCode::kRemoteOperationalError);

}  // namespace

Outcome Requester::on_response(const PacketView& packet, Instant now) {
  Outcome outcome;
  switch (packet.info->operation) {
    case Operation::kAcknowledge:
      outcome = on_acknowledge(packet, now);
      break;
    case Operation::kSelectiveAck:
      outcome = on_selective_ack(packet, now);
      break;
    default:
      outcome = on_data_response(packet, now);
      break;
  }
  if (outcome == Outcome::kGoesOn && selective_) outcome = take_held(now);
  return outcome == Outcome::kGoesOn ? completer_.settle(now) : outcome;
}

Outcome Requester::on_acknowledge(const PacketView& packet, Instant now) {
  const Aeth aeth = packet.aeth();
  const Psn psn = packet.bth.psn;
  const AethKind kind = aeth_kind(aeth.syndrome);
  const bool reserved_code = kind == AethKind::kNak && aeth_value(aeth.syndrome) > kNakCodeLast;
  if (kind == AethKind::kReserved || reserved_code) {
    context_.counters().rx_drop_reserved_syndrome++;
    return Outcome::kGoesOn;
  }
  if (!window_.outstanding(psn)) {
    // The newest ACK has come again: the peer posted receives and sends new credits.
    if (kind == AethKind::kAck && psn + 1 == window_.una()) {
      credits_.learn(aeth);
    } else {
      context_.counters().rx_drop_ghost_ack++;
    }
    return Outcome::kGoesOn;
  }
  switch (kind) {
    case AethKind::kAck:
      return on_ack(psn, aeth, now);
    case AethKind::kRnrNak:
      return on_rnr_nak(aeth_value(aeth.syndrome), psn, now);
    default:
      return on_nak(static_cast<NakCode>(aeth_value(aeth.syndrome)), psn, now);
  }
}

Outcome Requester::on_ack(Psn psn, const Aeth& aeth, Instant now) {
  credits_.learn(aeth);
  if (rtt_) context_.rate.on_rtt(rtt_->on_answered(psn, now), now);
  const Reached reached = acknowledge(psn + 1, now);
  if (reached == Reached::kFailed) return Outcome::kFailed;
  if (reached == Reached::kAll) {
    // A plain ACK leaves out READs and atomics at the end, and says nothing about them.
    const bool names_all = ring_.empty() || !ring_.front().needs_response();
    if (selective_ && names_all && selective_->requests.on_expects(psn + 1)) context_.rate.on_loss(now);
    return Outcome::kGoesOn;
  }
  if (!context_.peer.selective()) return implied_nak(now);
  selective_->responses.on_answer_beyond(now);
  return Outcome::kGoesOn;
}

Outcome Requester::on_nak(NakCode code, Psn psn, Instant now) {
  const Reached reached = acknowledge(psn, now);
  if (reached == Reached::kFailed) return Outcome::kFailed;
  if (code == NakCode::kPsnSequenceError) context_.counters().packet_seq_err++;
  // The refused request is not the one at the head: the response of that one was lost, and has to be asked for first.
  if (reached == Reached::kBlocked) return implied_nak(now);
  switch (code) {
    case NakCode::kPsnSequenceError:
      // While the peer waits for a receive, the packets behind the one that it refused are missing by design.
      if (timer_.awaits_receive()) return Outcome::kGoesOn;
      limit_.on_loss();
      return retry(Cause::kSequenceRetries, now);
    case NakCode::kInvalidRequest:
      context_.counters().req_remote_invalid_request++;
      return completer_.fail(Cause::kNakInvalidRequest, now);
    case NakCode::kRemoteAccessError:
      context_.counters().req_remote_access_errors++;
      return completer_.fail(Cause::kNakRemoteAccess, now);
    default:
      return completer_.fail(Cause::kNakRemoteOperational, now);
  }
}

Outcome Requester::on_rnr_nak(uint8_t timer, Psn psn, Instant now) {
  const Psn before = window_.una();
  const Reached reached = acknowledge(psn, now);
  if (reached == Reached::kFailed) return Outcome::kFailed;
  context_.counters().rnr_nak_retry_err++;
  if (reached == Reached::kBlocked) return implied_nak(now);
  const RetryTimer::Budget budget = timer_.await_receive(rnr_delay(timer), window_.una() != before, now);
  if (budget == RetryTimer::Budget::kExhausted) return completer_.fail(Cause::kRnrRetries, now);
  start_over();
  return Outcome::kGoesOn;
}

/// Everything before `upto` is acknowledged, except READs and atomics, which wait for their own responses. `upto` must
/// not lie beyond what was sent.
Requester::Reached Requester::acknowledge(Psn upto, Instant now) {
  if (selective_) apply(selective_->requests.on_delivered(upto, now), now);
  const Psn before = window_.una();
  Reached reached = Reached::kAll;
  while (!ring_.empty()) {
    const SendWqe& wqe = ring_.front();
    if (!wqe.done) {
      if (!window_.una().before(upto)) break;
      if (wqe.needs_response()) {
        reached = Reached::kBlocked;
        break;
      }
      const Psn end = wqe.first_psn + wqe.packets;
      if (upto.before(end)) {
        window_.on_answered(upto);
        break;
      }
      window_.on_answered(end);
    }
    if (completer_.complete(now) == Outcome::kFailed) return Reached::kFailed;
  }
  if (window_.una() != before) progress(now);
  return reached;
}

/// The peer got further: retry counters and the timer start afresh, and a cursor that was overtaken catches up.
void Requester::progress(Instant now) {
  implied_nak_ = false;
  limit_.on_progress();
  if (window_.distance_to_cursor() < 0) rewind();
  if (selective_) selective_->on_progress(now);
  // If packets still have to be sent again, the timer starts when the first of them leaves.
  timer_.on_progress(window_.distance_to_cursor() != 0, now);
}

Outcome Requester::implied_nak(Instant now) {
  if (implied_nak_ || timer_.awaits_receive()) return Outcome::kGoesOn;
  context_.counters().implied_nak_seq_err++;
  limit_.on_loss();
  implied_nak_ = true;
  return retry(Cause::kSequenceRetries, now);
}

Outcome Requester::retry(Cause when_exhausted, Instant now) {
  if (timer_.spend_retry() == RetryTimer::Budget::kExhausted) return completer_.fail(when_exhausted, now);
  context_.rate.on_loss(now);
  start_over();
  return Outcome::kGoesOn;
}

/// A READ or atomic response acknowledges everything before it. kAll when it is the response that is waited for.
Requester::Reached Requester::reach_response(const PacketView& packet, Instant now) {
  const Psn psn = packet.bth.psn;
  if (!window_.outstanding(psn)) {
    context_.counters().rx_drop_ghost_ack++;
    if (psn.before(window_.high())) timer_.on_other_response(psn, now);
    return Reached::kBlocked;
  }
  if (rtt_) context_.rate.on_rtt(rtt_->on_answered(psn, now), now);
  if (acknowledge(psn, now) == Reached::kFailed) return Reached::kFailed;
  if (selective_) apply(selective_->requests.on_delivered(psn + 1, now), now);
  if (window_.una() == psn) return Reached::kAll;
  Outcome outcome = Outcome::kGoesOn;
  if (context_.peer.selective()) {
    hold_response(packet, now);
  } else {
    context_.counters().rx_drop_early_response++;
    outcome = implied_nak(now);
  }
  timer_.on_other_response(psn, now);
  return outcome == Outcome::kFailed ? Reached::kFailed : Reached::kBlocked;
}

/// Takes a response of a READ or of an atomic.
Outcome Requester::on_data_response(const PacketView& packet, Instant now) {
  const bool read = packet.info->operation == Operation::kReadResponse;
  if (packet.info->has(kHasAeth) && aeth_kind(packet.aeth().syndrome) != AethKind::kAck) {
    context_.counters().rx_drop_reserved_syndrome++;
    return Outcome::kGoesOn;
  }
  const Reached reached = reach_response(packet, now);
  if (reached != Reached::kAll) return reached == Reached::kFailed ? Outcome::kFailed : Outcome::kGoesOn;
  const SendWqe& wqe = ring_.front();
  if (!(read ? wqe.is_read() || wqe.is_placement() : wqe.is_atomic())) {
    context_.counters().rx_drop_unexpected_response++;
    return Outcome::kGoesOn;
  }
  const bool parts_asked = selective_ && selective_->responses.asked_parts();
  const Cause cause =
      read ? store_read_response(context_, wqe, packet, parts_asked) : store_atomic_response(context_, wqe, packet);
  if (cause != Cause::kNone) return completer_.fail(cause, now);
  const Psn next = packet.bth.psn + 1;
  window_.on_answered(next);
  if (next == wqe.first_psn + wqe.packets) {
    if (rd_atomic_in_flight_ != 0) rd_atomic_in_flight_--;
    if (completer_.complete(now) == Outcome::kFailed) return Outcome::kFailed;
  }
  progress(now);
  return Outcome::kGoesOn;
}

}  // namespace uroce
