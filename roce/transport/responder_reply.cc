// The responder's answers, in PSN order: READ responses, atomic results, then the ACK or NAK for everything else.
#include <algorithm>

#include "transport/frame_builder.h"
#include "transport/responder.h"
#include "transport/timing.h"

namespace uroce {

void Responder::request_ack(Instant now) {
  const bool second_message = answer_ == Answer::kAck;
  if (answer_ == Answer::kNak) return;  // it acknowledges everything before it too
  answer_ = Answer::kAck;
  held_ = !second_message && answers_ >= 2 && replies_.empty() && context_.env.ack_hold.ns > 0;
  if (held_) hold_until_ = now + context_.env.ack_hold;
  last_message_at_ = now;
  message_unanswered_ = true;
}

void Responder::request_nak(uint8_t syndrome) {
  answer_ = Answer::kNak;
  nak_syndrome_ = syndrome;
  held_ = false;
}

void Responder::on_timeout(Instant now) {
  if (!held_ || now < hold_until_) return;
  held_ = false;
  answers_ = 0;  // nobody answered: do not wait the next time
}

void Responder::on_send_posted() {
  if (!message_unanswered_) return;
  message_unanswered_ = false;
  answers_ = static_cast<uint8_t>(std::min(answers_ + 1, 3));
}

void Responder::on_receive_posted() {
  // The limit that the peer knows of is used up, so it may be waiting for exactly this. Behind a READ or an atomic
  // there is no PSN for such an ACK; the peer will ask with the packet that it may send without credit.
  const bool starved = credits_granted_ && !Psn(msn_).before(credit_limit_);
  if (starved && answer_ == Answer::kNone && reads_last_ == 0) answer_ = Answer::kAck;
}

uint8_t Responder::ack_syndrome() {
  if (!context_.env.grant_credits || context_.srq != nullptr) return make_syndrome(AethKind::kAck, kCreditsInvalid);
  const uint8_t code = credit_code(receive_.posted());
  credits_granted_ = true;
  credit_limit_ = Psn(msn_ + credits_of(code));
  return make_syndrome(AethKind::kAck, code);
}

bool Responder::poll_transmit(TxFrame& frame, Instant now) {
  while (!replies_.empty()) {
    Reply& reply = replies_.front();
    if (reply.atomic) {
      send_atomic_response(reply, frame);
      replies_.pop();
      return true;
    }
    if (send_read_response(reply, frame, now)) return true;
  }
  if (answer_ == Answer::kNone || held_) return false;
  send_answer(frame);
  answer_ = Answer::kNone;
  return true;
}

/// The next packet of a READ response. False: the region may not be read any more, and the reply is off the queue.
bool Responder::send_read_response(Reply& reply, TxFrame& frame, Instant now) {
  const uint32_t bytes = std::min(reply.remaining, context_.mtu);
  uint8_t* memory = nullptr;
  if (bytes != 0) {
    const AccessCheck check =
        context_.env.memory.check(reply.rkey, context_.pd, reply.va, bytes, kRemoteRead, context_.qpn, memory);
    if (check != AccessCheck::kOk) {
      break_off(reply, NakCode::kRemoteOperationalError, Cause::kRemoteKey, now);
      return false;
    }
  }
  const bool first = !reply.begun;
  const bool last = bytes == reply.remaining;
  const uint8_t low = first ? (last ? kOpReadResponseOnly : kOpReadResponseFirst)
                            : (last ? kOpReadResponseLast : kOpReadResponseMiddle);
  Bth bth;
  bth.opcode = make_opcode(Service::kRc, low);
  bth.dest_qp = context_.attributes.dest_qpn;
  bth.psn = reply.psn;
  const uint32_t ext_bytes = first || last ? Aeth::kBytes : 0;
  FrameBuilder builder(frame, context_.data_header, bth, ext_bytes, bytes);
  if (ext_bytes != 0)
    Aeth{make_syndrome(AethKind::kAck, kCreditsInvalid), reply.msn & Psn::kMask}.encode(builder.ext());
  builder.begin_payload();
  if (bytes != 0 && !builder.append_registered(memory, bytes)) {
    break_off(reply, NakCode::kRemoteAccessError, Cause::kMemoryGone, now);
    return false;
  }
  builder.finish();
  reply.begun = true;
  reply.psn += 1;
  reply.va += bytes;
  reply.remaining -= bytes;
  if (last) {
    // It acknowledges everything before it; an ACK that was waiting is only needed for what came later.
    if (reply.psn == epsn_ && answer_ == Answer::kAck && early_.empty()) answer_ = Answer::kNone;
    replies_.pop();
  }
  return true;
}

/// The program took its memory back. A NAK takes the place of this response and all later ones, except that what the
/// peer got before is just not repeated.
void Responder::break_off(const Reply& reply, NakCode code, Cause cause, Instant now) {
  if (reply.again) {
    context_.counters().rx_drop_bad_duplicate++;
    replies_.pop();
    return;
  }
  epsn_ = reply.psn;
  msn_ = reply.msn - 1;
  replies_.clear();
  refuse(code, cause, WcStatus::kLocAccessErr, now);
}

void Responder::send_atomic_response(const Reply& reply, TxFrame& frame) {
  Bth bth;
  bth.opcode = make_opcode(Service::kRc, kOpAtomicAcknowledge);
  bth.dest_qp = context_.attributes.dest_qpn;
  bth.psn = reply.psn;
  FrameBuilder builder(frame, context_.header, bth, Aeth::kBytes + AtomicAckEth::kBytes, 0);
  Aeth{make_syndrome(AethKind::kAck, kCreditsInvalid), reply.msn & Psn::kMask}.encode(builder.ext());
  AtomicAckEth{reply.original}.encode(builder.ext() + Aeth::kBytes);
  builder.begin_payload();
  builder.finish();
  if (reply.psn + 1 == epsn_ && answer_ == Answer::kAck && early_.empty()) answer_ = Answer::kNone;
}

/// An ACK names the last packet received in order; a NAK, the one that is expected. READs and atomics at the end are
/// left out of the ACK: their responses may be lost, and there are peers that would do without.
void Responder::send_answer(TxFrame& frame) {
  const bool nak = answer_ == Answer::kNak;
  if (!nak && !early_.empty() && context_.peer.selective()) return send_selective_ack(frame);
  Bth bth;
  bth.opcode = make_opcode(Service::kRc, kOpAcknowledge);
  bth.dest_qp = context_.attributes.dest_qpn;
  bth.psn = nak ? epsn_ : epsn_ - (1 + reads_last_);
  FrameBuilder builder(frame, context_.header, bth, Aeth::kBytes, 0);
  Aeth{nak ? nak_syndrome_ : ack_syndrome(), msn_ & Psn::kMask}.encode(builder.ext());
  builder.begin_payload();
  builder.finish();
  if (!nak) {
    context_.counters().sent_acks++;
  } else if (aeth_kind(nak_syndrome_) == AethKind::kRnrNak) {
    context_.counters().sent_rnr_naks++;
  } else {
    context_.counters().sent_naks++;
  }
}

}  // namespace uroce
