// The requester's other half: answers in, completions out.
#include <algorithm>

#include "transport/request_encoder.h"
#include "transport/requester.h"
#include "transport/sge_list.h"
#include "transport/timing.h"

namespace uroce {

namespace {

/// Of the codes that a reliable connection knows; those behind it are dropped with all that they seem to acknowledge.
constexpr auto kNakCodeLast = static_cast<uint8_t>(NakCode::kRemoteOperationalError);

}  // namespace

void Requester::on_response(const PacketView& packet, Instant now) {
  switch (packet.info->operation) {
    case Operation::kAcknowledge:
      on_acknowledge(packet, now);
      break;
    case Operation::kReadResponse:
      on_read_response(packet, now);
      break;
    case Operation::kSelectiveAck:
      on_selective_ack(packet, now);
      break;
    default:
      on_atomic_response(packet, now);
      break;
  }
  if (selective_) after_responses(now);
  settle_head(now);
}

void Requester::learn_credits(const Aeth& aeth) {
  const uint8_t code = aeth_value(aeth.syndrome);
  credits_known_ = code != kCreditsInvalid;
  credit_limit_ = Psn(aeth.msn + credits_of(code));
}

/// With a scoreboard, that one tells congestion control of round trips.
void Requester::measure(Psn psn, Instant now) {
  const std::optional<Duration> rtt = rtt_.on_answered(psn, now);
  if (!selective_) context_.on_rtt(rtt, now);
}

void Requester::on_acknowledge(const PacketView& packet, Instant now) {
  const Aeth aeth = packet.aeth();
  const Psn psn = packet.bth.psn;
  const AethKind kind = aeth_kind(aeth.syndrome);
  const bool reserved_code = kind == AethKind::kNak && aeth_value(aeth.syndrome) > kNakCodeLast;
  if (kind == AethKind::kReserved || reserved_code) {
    context_.counters().rx_drop_reserved_syndrome++;
    return;
  }
  if (!outstanding(psn)) {
    // The newest ACK again: the peer posted receives and says so.
    if (kind == AethKind::kAck && psn + 1 == una_) {
      learn_credits(aeth);
    } else {
      context_.counters().rx_drop_ghost_ack++;
    }
    return;
  }
  switch (kind) {
    case AethKind::kAck:
      learn_credits(aeth);
      measure(psn, now);
      switch (acknowledge(psn + 1, now)) {
        case Reached::kFailed:
          return;
        case Reached::kBlocked:
          return context_.peer.selective() ? on_blocked_ack(now) : implied_nak(now);
        case Reached::kAll:
          // A plain ACK leaves out READs and atomics at the end: of those it says nothing.
          if (selective_ && (ring_.empty() || !ring_.front().needs_response())) check_dropped(psn + 1, now);
          return;
      }
      return;
    case AethKind::kRnrNak:
      return on_rnr_nak(aeth_value(aeth.syndrome), psn, now);
    default:
      return on_nak(static_cast<NakCode>(aeth_value(aeth.syndrome)), psn, now);
  }
}

void Requester::on_nak(NakCode code, Psn psn, Instant now) {
  const Reached reached = acknowledge(psn, now);
  if (reached == Reached::kFailed) return;
  if (code == NakCode::kPsnSequenceError) context_.counters().packet_seq_err++;
  // It is not the head that was refused: the head's response is lost, and has to be asked for first.
  if (reached == Reached::kBlocked) return implied_nak(now);
  switch (code) {
    case NakCode::kPsnSequenceError:
      // While the peer waits for a receive, the packets behind the one that it refused are missing by design.
      if (rnr_wait_) return;
      shrink_window();
      return retry(Cause::kSequenceRetries, now);
    case NakCode::kInvalidRequest:
      context_.counters().req_remote_invalid_request++;
      return fail_head(Cause::kNakInvalidRequest, now);
    case NakCode::kRemoteAccessError:
      context_.counters().req_remote_access_errors++;
      return fail_head(Cause::kNakRemoteAccess, now);
    default:
      return fail_head(Cause::kNakRemoteOperational, now);
  }
}

void Requester::on_rnr_nak(uint8_t timer, Psn psn, Instant now) {
  const Psn before = una_;
  const Reached reached = acknowledge(psn, now);
  if (reached == Reached::kFailed) return;
  context_.counters().rnr_nak_retry_err++;
  if (reached == Reached::kBlocked) return implied_nak(now);
  // For another copy of what we wait with: the wait may become longer, but we did not retry.
  const bool again = rnr_wait_ && una_ == before;
  if (!again && context_.attributes.rnr_retry != 7) {
    if (rnr_left_ == 0) return fail_head(Cause::kRnrRetries, now);
    rnr_left_--;
  }
  retry_left_ = context_.attributes.retry_cnt;  // the peer answers: losses before this one are over
  const Instant until = now + rnr_delay(timer);
  rnr_until_ = again ? std::max(rnr_until_, until) : until;
  rnr_wait_ = true;
  deadline_ = Instant::never();
  rewind();
  if (selective_) forget_repeats();
}

/// Everything before `upto`, which was sent, is acknowledged, except that READs and atomics wait for their own
/// responses.
Requester::Reached Requester::acknowledge(Psn upto, Instant now) {
  if (selective_) on_delivered(upto, now);
  const Psn before = una_;
  Reached reached = Reached::kAll;
  while (!ring_.empty()) {
    const SendWqe& wqe = ring_.front();
    if (!wqe.done) {
      if (!una_.before(upto)) break;
      if (wqe.needs_response()) {
        reached = Reached::kBlocked;
        break;
      }
      const Psn end = wqe.first_psn + wqe.packets;
      if (upto.before(end)) {
        una_ = upto;
        break;
      }
      una_ = end;
    }
    if (complete_head(now) == Outcome::kFailed) return Reached::kFailed;
  }
  if (una_ != before) progress(now);
  return reached;
}

/// The peer got further: retry counters and the timer start afresh, and a cursor that was overtaken catches up.
void Requester::progress(Instant now) {
  implied_nak_ = false;
  timeouts_ = 0;
  retry_left_ = context_.attributes.retry_cnt;
  rnr_left_ = context_.attributes.rnr_retry;
  window_ = std::min(window_ + 1, context_.env.window_packets);
  if (next_psn_.before(una_)) rewind();
  if (selective_) {
    selective_->probes = 0;
    selective_->asked = 0;
    on_activity(now);
  }
  // What has to be sent again starts the timer when it leaves.
  const bool waits = una_ != next_psn_ && context_.attributes.timeout != 0;
  deadline_ = waits ? now + answer_time() : Instant::never();
}

void Requester::implied_nak(Instant now) {
  if (implied_nak_ || rnr_wait_) return;
  context_.counters().implied_nak_seq_err++;
  shrink_window();
  retry(Cause::kSequenceRetries, now);
  implied_nak_ = true;
}

void Requester::retry(Cause when_exhausted, Instant now) {
  if (retry_left_ == 0) return fail_head(when_exhausted, now);
  retry_left_--;
  context_.on_loss(now);
  rewind();
  if (selective_) forget_repeats();
  deadline_ = Instant::never();  // until the retransmission leaves: a full port is not a peer that is gone
}

/// A READ or atomic response with this PSN acknowledges everything before it. True when it is the one waited for.
bool Requester::reach_response(const PacketView& packet, Instant now) {
  const Psn psn = packet.bth.psn;
  if (!outstanding(psn)) {
    context_.counters().rx_drop_ghost_ack++;
    on_other_response(psn, now);
    return false;
  }
  measure(psn, now);
  if (acknowledge(psn, now) == Reached::kFailed) return false;
  if (selective_) on_delivered(psn + 1, now);
  if (una_ == psn) return true;
  if (context_.peer.selective()) {
    hold_response(packet, now);
  } else {
    context_.counters().rx_drop_early_response++;
    implied_nak(now);
  }
  on_other_response(psn, now);
  return false;
}

/// Responses to what was asked before a loss may go on for longer than the ACK timer. A peer that sends them is not
/// gone: the timer starts again, but only for what was not heard since the last retry, so that a peer cannot put off
/// the end.
void Requester::on_other_response(Psn psn, Instant now) {
  if (deadline_ == Instant::never() || !psn.before(high_psn_) || (heard_ && !heard_until_.before(psn))) return;
  heard_ = true;
  heard_until_ = psn;
  deadline_ = now + answer_time();
}

void Requester::on_read_response(const PacketView& packet, Instant now) {
  const Psn psn = packet.bth.psn;
  if (packet.info->has(kHasAeth) && aeth_kind(packet.aeth().syndrome) != AethKind::kAck) {
    context_.counters().rx_drop_reserved_syndrome++;
    return;
  }
  if (!reach_response(packet, now)) return;
  SendWqe& wqe = ring_.front();
  if (!wqe.is_read()) {
    context_.counters().rx_drop_unexpected_response++;
    return;
  }
  const auto index = static_cast<uint32_t>(distance(wqe.first_psn, psn));
  const bool last = index + 1 == wqe.packets;
  const uint64_t offset = uint64_t{index} * context_.mtu;
  const uint32_t expected = last ? static_cast<uint32_t>(wqe.length - offset) : context_.mtu;
  // A peer that was asked for a part of a READ says "last" where the part ends.
  const bool early_last = !last && selective_ && selective_->asked_parts;
  if (packet.payload_bytes != expected || (packet.info->is_last() != last && !early_last) || !padding_fits(packet)) {
    return fail_head(Cause::kBadReadResponse, now);
  }
  PieceList pieces;
  const AccessCheck check =
      resolve(context_.env.memory, context_.pd, wqe.sge_span(), offset, expected, kLocalWrite, pieces);
  if (check != AccessCheck::kOk) return fail_head(cause_of(check), now);
  if (!scatter(pieces, packet.payload, expected)) return fail_head(Cause::kMemoryGone, now);
  una_ = psn + 1;
  if (last) {
    if (rd_atomic_in_flight_ != 0) rd_atomic_in_flight_--;
    if (complete_head(now) == Outcome::kFailed) return;
  }
  progress(now);
}

void Requester::on_atomic_response(const PacketView& packet, Instant now) {
  const Psn psn = packet.bth.psn;
  if (aeth_kind(packet.aeth().syndrome) != AethKind::kAck) {
    context_.counters().rx_drop_reserved_syndrome++;
    return;
  }
  if (!reach_response(packet, now)) return;
  SendWqe& wqe = ring_.front();
  if (!wqe.is_atomic()) {
    context_.counters().rx_drop_unexpected_response++;
    return;
  }
  PieceList pieces;
  const AccessCheck check = resolve(context_.env.memory, context_.pd, wqe.sge_span(), 0, 8, kLocalWrite, pieces);
  if (check != AccessCheck::kOk) return fail_head(cause_of(check), now);
  uint64_t original = packet.atomic_ack_eth().original;
  if (!scatter(pieces, reinterpret_cast<const uint8_t*>(&original), sizeof original)) {
    return fail_head(Cause::kMemoryGone, now);
  }
  una_ = psn + 1;
  if (rd_atomic_in_flight_ != 0) rd_atomic_in_flight_--;
  if (complete_head(now) == Outcome::kFailed) return;
  progress(now);
}

/// The head was carried out.
Requester::Outcome Requester::complete_head(Instant now) {
  take_head(Cause::kNone, now);
  return context_.failed ? Outcome::kFailed : Outcome::kGoesOn;
}

/// The head failed, and the QP with it. Nothing may follow in the same call.
void Requester::fail_head(Cause cause, Instant now) {
  context_.failed = true;
  local_error_ = Cause::kNone;
  take_head(cause, now);
}

/// Takes the head off the queue. Completions in error are always reported, others when they were asked for.
void Requester::take_head(Cause cause, Instant now) {
  const SendWqe& wqe = ring_.front();
  const bool cursor_here = cursor_ == ring_.head();
  slots_.end();
  if (cause != Cause::kNone || wqe.has(kSendSignaled)) {
    Completion completion;
    completion.wr_id = wqe.wr_id;
    completion.status = status_of(cause);
    completion.cause = cause;
    completion.opcode = completion_opcode(wqe.opcode);
    completion.byte_len = wqe.length;
    context_.complete(context_.send_cq, slots_, completion, false, now);
    if (cause != Cause::kNone && wqe.opcode == WrOpcode::kBindMw) context_.on_bind_error(wqe.bind);
  }
  ring_.pop();
  if (cursor_here) {
    cursor_ = ring_.head();
    cursor_packet_ = 0;
  }
}

/// Local operations complete as soon as they stand at the head; a local error at the cursor, likewise. Only at the end
/// of a call, so that nothing can go on behind the failure.
void Requester::settle_head(Instant now) {
  while (!context_.failed && !ring_.empty() && ring_.front().done) take_head(Cause::kNone, now);
  if (!context_.failed && local_error_ != Cause::kNone && cursor_ == ring_.head()) fail_head(local_error_, now);
}

}  // namespace uroce
