// The responder's answers, in PSN order: READ responses, atomic results, then the ACK or NAK for everything else.
#include <algorithm>
#include <array>

#include "transport/responder.h"
#include "transport/response_encoder.h"
#include "transport/timing.h"

namespace uroce {

void Responder::on_receive_posted() {
  // The peer has used up the credits that it knows of, so it may be waiting for this receive. After a READ or an atomic
  // there is no PSN for such an ACK; then the peer finds out with the one packet that it may send without credit.
  const bool starved = credit_limit_ && !Psn(sequence_.msn()).before(*credit_limit_);
  const bool nothing_owed = ack_.state() == Acknowledger::State::kNothing;
  if (starved && nothing_owed && !sequence_.ends_with_read()) ack_.require_ack();
}

uint8_t Responder::ack_syndrome() {
  if (!context_.env.grant_credits || !context_.own_receives) return make_syndrome(AethKind::kAck, kCreditsInvalid);
  const uint8_t code = credit_code(receive_.posted());
  credit_limit_ = Psn(sequence_.msn() + credits_of(code));
  return make_syndrome(AethKind::kAck, code);
}

PollResult Responder::poll_transmit(TxFrame& frame) {
  Outcome outcome = Outcome::kGoesOn;
  while (!replies_.empty()) {
    const Reply& reply = replies_.front();
    const Psn next = reply.psn + 1;
    const uint32_t bytes = std::min(reply.remaining, context_.mtu);
    if (reply.atomic) {
      encode_atomic_response(context_, reply, frame);
    } else {
      const PollResult polled = send_read_response(reply, bytes, frame);
      outcome = polled.outcome;
      if (!polled.frame) continue;
    }
    // A reply that was sent in full acknowledges everything before it; an ACK that was waiting is needed only for what
    // came later.
    const bool all = replies_.on_sent(bytes) == ReplyQueue::Sent::kAll;
    if (all && next == sequence_.next() && early_.empty()) ack_.on_response();
    return {.frame = true};
  }
  if (!ack_.due()) return {.outcome = outcome};
  send_answer(frame);
  ack_.on_sent();
  return {.frame = true, .outcome = outcome};
}

/// Sends the next packet of a READ response. There is no frame when the region may not be read any more; then the reply
/// was taken off the queue.
PollResult Responder::send_read_response(const Reply& reply, uint32_t bytes, TxFrame& frame) {
  uint8_t* memory = nullptr;
  if (bytes != 0) {
    const AccessCheck check =
        context_.env.memory.check(reply.rkey, reply.pd, reply.va, bytes, kRemoteRead, context_.qpn, memory);
    if (check != AccessCheck::kOk) return {.outcome = break_off(reply, refusal::kKeyGone)};
  }
  if (encode_read_response(context_, reply, memory, bytes, frame)) return {.frame = true};
  return {.outcome = break_off(reply, refusal::kMemoryGone)};
}

/// The program took its memory back. A NAK takes the place of this response and all later ones; but a response that the
/// peer got before is merely not repeated.
Outcome Responder::break_off(const Reply& reply, const Refusal& why) {
  if (reply.again) {
    context_.counters().rx_drop_bad_duplicate++;
    replies_.pop();
    return Outcome::kGoesOn;
  }
  sequence_.go_back(reply.psn, reply.msn - 1);
  replies_.clear();
  return refuse_reply(why);
}

/// An ACK names the last packet received in order, without READs and atomics at the end; a NAK names the packet that is
/// expected; a selective ACK names the last packet received in order, of whatever kind.
void Responder::send_answer(TxFrame& frame) {
  Counters& counters = context_.counters();
  const uint32_t msn = sequence_.msn() & Psn::kMask;
  if (ack_.state() == Acknowledger::State::kNak) {
    encode_acknowledge(context_, sequence_.next(), {ack_.nak_syndrome(), msn}, frame);
    const bool not_ready = aeth_kind(ack_.nak_syndrome()) == AethKind::kRnrNak;
    (not_ready ? counters.sent_rnr_naks : counters.sent_naks)++;
  } else if (!early_.empty() && context_.peer.selective()) {
    std::array<SackRange, kSackRangesMax> ranges;
    const uint32_t count = early_.recent(ranges);
    encode_selective_ack(context_, sequence_.next() - 1, {ack_syndrome(), msn}, {ranges.data(), count}, frame);
    counters.tx_sack++;
  } else {
    encode_acknowledge(context_, sequence_.acknowledged(), {ack_syndrome(), msn}, frame);
    counters.sent_acks++;
  }
}

}  // namespace uroce
