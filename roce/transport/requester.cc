#include "transport/requester.h"

#include <algorithm>

#include "transport/request_encoder.h"

namespace uroce {

namespace {

constexpr int32_t kReadAheadMax = 1 << 22;  // PSNs that READs may reserve: a quarter of the circle; a single one, any

}  // namespace

Requester::Requester(QpContext& context, SendQueue& queue)
    : context_(context),
      ring_(queue.ring()),
      window_(queue.ring()),
      completer_(context, queue, window_),
      timer_(context.attributes),
      limit_(context.env.window_packets, context.env.ack_every) {
  if (context.env.direct != nullptr && context.type == QpType::kRc) direct_ = std::make_unique<DirectRequests>(context);
  if (context.peer.enabled()) {
    selective_ = std::make_unique<SelectiveRepeat>(context, ring_, window_);
  } else if (context.rate.control() != nullptr) {
    rtt_ = std::make_unique<RttSampler>();
  }
}

void Requester::start() {
  window_.start(context_.attributes.sq_psn);
  ssn_ = 0;
  rd_atomic_in_flight_ = 0;
  limit_.start();
  timer_.start();
  credits_.reset();
  if (rtt_) rtt_->reset();
  if (selective_) selective_->start();
  reset();
}

void Requester::reset() {
  timer_.reset();
  implied_nak_ = false;
  completer_.forget_local_error();
  window_.reset();
  if (rtt_) rtt_->forget();
  if (selective_) selective_->reset();
  if (direct_) direct_->reset();
}

bool Requester::lacks_credit(const SendWqe& wqe) const {
  return wqe.takes_receive() && !credits_.allow(wqe.started ? wqe.ssn : ssn_ + 1);
}

bool Requester::may_send() const {
  if (timer_.awaits_receive() || completer_.has_local_error()) return false;
  const SendWqe& wqe = window_.wqe();
  const bool running = context_.state == QpState::kRts || (context_.state == QpState::kSqd && wqe.started);
  if (!running) return false;
  if (wqe.has(kSendFence) && window_.packet() == 0 && rd_atomic_in_flight_ != 0) return false;
  if (wqe.is_local()) return true;
  if (direct_ && direct_->takes(wqe, window_.cursor())) return window_.all_answered();
  if (selective_ && selective_->requests.full()) return false;
  const int32_t in_flight = window_.distance_to_cursor();
  if (wqe.needs_response()) {
    // With 0 the request would wait for ever; send_next reports the error instead.
    const uint32_t limit = std::max<uint32_t>(context_.attributes.max_rd_atomic, 1);
    const bool fits = in_flight == 0 || in_flight + static_cast<int32_t>(wqe.packets) < kReadAheadMax;
    return rd_atomic_in_flight_ < limit && fits;
  }
  const bool spared = selective_ && context_.peer.selective();
  const uint32_t open = spared ? selective_->requests.open() : static_cast<uint32_t>(in_flight);
  if (!limit_.allows(open, context_.rate.window_cap())) return false;
  // Without credit a single packet may go, to find out whether the peer has a receive by now. One may also go when the
  // newest packet in flight asked for no ACK, so that it can ask for one.
  return in_flight == 0 || !limit_.newest_asked() || !lacks_credit(wqe);
}

bool Requester::wants_transmit() const {
  return (!window_.at_end() && may_send()) || (selective_ && wants_beside_cursor());
}

PollResult Requester::poll_transmit(TxFrame& frame, Instant now) {
  if (selective_ && wants_beside_cursor() && poll_beside_cursor(frame, now)) return {.frame = true};
  uint32_t direct_room = DirectRequests::kBytesPerTurn;
  while (!window_.at_end() && may_send()) {
    SendWqe& wqe = window_.wqe();
    // The peer may show more than it did when `may_send` asked: it is not believed while packets are under way.
    const bool direct = direct_ && !wqe.is_local() && window_.all_answered() && direct_->takes(wqe, window_.cursor());
    if (!wqe.is_local() && !direct) {
      if (direct_) direct_->leave(wqe);
      return send_next(wqe, frame, now);
    }
    if (wqe.done) {
      window_.skip();  // carried out before the cursor was moved back
      continue;
    }
    if (direct) {
      const DirectRequests::Step step = direct_->carry_out(wqe, window_.cursor(), window_.next(), direct_room, now);
      if (step == DirectRequests::Step::kPart) return {};
      if (step == DirectRequests::Step::kInFrames) continue;
    }
    const Outcome outcome = end_here(wqe, now);
    if (outcome != Outcome::kGoesOn) return {.outcome = outcome};
  }
  return {};
}

/// Ends the work request at the cursor, which has nothing to send: a local operation is carried out, and a direct copy
/// was made.
Outcome Requester::end_here(SendWqe& wqe, Instant now) {
  const Cause cause = wqe.is_local() ? run_local(context_, wqe) : Cause::kNone;
  if (cause != Cause::kNone) return completer_.set_local_error(cause, now);
  wqe.done = true;
  window_.skip();
  return completer_.settle(now);
}

/// Sends the packet at the cursor.
PollResult Requester::send_next(SendWqe& wqe, TxFrame& frame, Instant now) {
  if (wqe.needs_response() && context_.attributes.max_rd_atomic == 0) return give_up(Cause::kNoReadDepth, now);
  const Psn psn = window_.next();
  if (!wqe.started) {
    wqe.started = true;
    wqe.first_psn = psn;
    wqe.ssn = ++ssn_;
  }
  const bool last = wqe.needs_response() || window_.packet() + 1 == wqe.packets;
  const auto in_flight = static_cast<uint32_t>(window_.distance_to_cursor());
  const bool asks = limit_.asks(in_flight, context_.rate.window_cap(), last || lacks_credit(wqe));
  const AckRequest ack_request = asks ? AckRequest::kYes : AckRequest::kNo;
  const Cause cause = encode_request(context_, wqe, window_.packet(), psn, ack_request, frame);
  if (cause != Cause::kNone) return give_up(cause, now);
  if (psn.before(window_.high())) {
    context_.counters().retransmits++;
  } else if (asks && rtt_) {
    rtt_->on_sent(psn, now);
  }
  if (wqe.needs_response()) rd_atomic_in_flight_++;
  const uint32_t work = window_.cursor();
  window_.advance();
  timer_.on_sent(now);
  if (selective_) selective_->on_sent(psn, work, now);
  return {.frame = true};
}

/// The work request at the cursor cannot be sent. It fails in its turn, after everything before it.
PollResult Requester::give_up(Cause cause, Instant now) { return {.outcome = completer_.set_local_error(cause, now)}; }

void Requester::rewind() {
  if (rtt_) rtt_->forget();
  window_.rewind();
  rd_atomic_in_flight_ = 0;
  limit_.on_rewind();
  timer_.on_rewind();
  completer_.forget_local_error();
  if (selective_) selective_->on_rewind();
}

/// Go-back-N: everything that is known about packets on their way is forgotten.
void Requester::start_over() {
  rewind();
  if (selective_) selective_->restart();
}

void Requester::on_path_resolved() {
  if (!window_.all_answered() && !timer_.awaits_receive()) rewind();
}

Outcome Requester::on_timeout(Instant now) {
  if (selective_ && !timer_.awaits_receive() && selective_->expire(now)) context_.rate.on_loss(now);
  if (timer_.expire(now) != RetryTimer::Expired::kAnswerWait || window_.all_answered()) return Outcome::kGoesOn;
  context_.counters().local_ack_timeout_err++;
  timer_.lengthen();
  implied_nak_ = false;
  limit_.on_loss();
  return retry(context_.path_resolved ? Cause::kTimeout : Cause::kPeerUnresolved, now);
}

bool Requester::drained() const { return window_.all_answered() && (window_.at_end() || !window_.wqe().started); }

void Requester::flush(Instant now) {
  timer_.stop();
  completer_.flush(now);
  window_.abandon();
  reset();
}

}  // namespace uroce
