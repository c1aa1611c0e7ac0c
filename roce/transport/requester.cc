#include "transport/requester.h"

#include <algorithm>
#include <bit>

#include "transport/request_encoder.h"
#include "transport/timing.h"

namespace uroce {

namespace {

constexpr uint32_t kWindowFloor = 8;
constexpr uint32_t kBoardFloor = 64;
constexpr int32_t kReadAheadMax = 1 << 22;  // PSNs that READs may reserve: a quarter of the circle, but any one alone

}  // namespace

Requester::Requester(QpContext& context, SendQueue& queue)
    : context_(context), ring_(queue.ring()), slots_(queue.slots()) {
  if (!context.peer.enabled()) return;
  // What the peer holds does not count in the window, so that a loss does not stop the flow while it is repaired.
  const uint32_t packets = std::bit_ceil(std::max(2 * context.env.window_packets, kBoardFloor));
  selective_ = std::make_unique<SelectiveRepeat>(packets, context.env.reorder_pool);
}

void Requester::start() {
  una_ = next_psn_ = high_psn_ = context_.attributes.sq_psn;
  cursor_ = ring_.head();
  cursor_packet_ = 0;
  ssn_ = 0;
  rd_atomic_in_flight_ = 0;
  unrequested_ = 0;
  window_ = context_.env.window_packets;
  retry_left_ = context_.attributes.retry_cnt;
  rnr_left_ = context_.attributes.rnr_retry;
  credits_known_ = false;
  rtt_.reset();
  if (selective_) selective_->board.forget_path();
  reset();
}

void Requester::reset() {
  deadline_ = rnr_until_ = Instant::never();
  rnr_wait_ = implied_nak_ = false;
  timeouts_ = 0;
  local_error_ = Cause::kNone;
  una_ = high_psn_ = next_psn_;
  rtt_.forget();
  cursor_ = ring_.head();
  cursor_packet_ = 0;
  if (selective_) {
    forget_repeats();
    selective_->delivered = una_;
    selective_->asked_parts = false;
  }
}

bool Requester::credit_limited(const SendWqe& wqe) const {
  if (!credits_known_ || !wqe.takes_receive()) return false;
  const uint32_t ssn = wqe.started ? wqe.ssn : ssn_ + 1;
  return credit_limit_.before(Psn(ssn));
}

bool Requester::may_send() const {
  if (rnr_wait_ || context_.failed || local_error_ != Cause::kNone || cursor_ == ring_.tail()) return false;
  const SendWqe& wqe = ring_.at(cursor_);
  const bool running = context_.state == QpState::kRts || (context_.state == QpState::kSqd && wqe.started);
  if (!running) return false;
  if (wqe.has(kSendFence) && cursor_packet_ == 0 && rd_atomic_in_flight_ != 0) return false;
  if (wqe.is_local()) return true;
  if (selective_ && selective_->board.full()) return false;
  const int32_t in_flight = distance(una_, next_psn_);
  if (wqe.needs_response()) {
    // Zero would wait for ever; poll_transmit reports it instead.
    const uint32_t limit = std::max<uint32_t>(context_.attributes.max_rd_atomic, 1);
    const bool fits = in_flight == 0 || in_flight + static_cast<int32_t>(wqe.packets) < kReadAheadMax;
    return rd_atomic_in_flight_ < limit && fits;
  }
  const bool spared = selective_ && context_.peer.selective();
  const uint32_t open = spared ? selective_->board.open() : static_cast<uint32_t>(in_flight);
  if (open >= window_) return false;
  // When the cap shrinks under packets that asked for no ACK, one more may go to ask for it.
  if (open >= context_.window_cap_packets && unrequested_ == 0) return false;
  // Without credit a single packet may go, to find out whether there is a receive by now; also when nobody would be
  // asked for an ACK of those before it.
  return in_flight == 0 || unrequested_ != 0 || !credit_limited(wqe);
}

bool Requester::wants_transmit() const { return may_send() || (selective_ && wants_again()); }

bool Requester::run_local(SendWqe& wqe, Instant now) {
  bool ok;
  if (wqe.opcode == WrOpcode::kBindMw) {
    ok = context_.env.memory.bind_window(wqe.bind, context_.pd, context_.qpn) != 0;
  } else {
    ok = context_.env.memory.invalidate(wqe.imm_or_rkey, context_.pd, context_.qpn);
  }
  if (!ok) {
    set_local_error(wqe.opcode == WrOpcode::kBindMw ? Cause::kBindRefused : Cause::kLocalKey, now);
    return false;
  }
  wqe.done = true;
  cursor_++;
  settle_head(now);
  return true;
}

void Requester::start_wqe(SendWqe& wqe) {
  wqe.started = true;
  wqe.first_psn = next_psn_;
  wqe.ssn = ++ssn_;
}

bool Requester::wants_ack(const SendWqe& wqe, uint32_t index) {
  const bool last = wqe.needs_response() || index + 1 == wqe.packets;
  // The window may close before the message ends: never without an ACK request in it.
  const uint32_t window = std::min(window_, context_.window_cap_packets);
  const bool closes = static_cast<uint32_t>(distance(una_, next_psn_)) + 1 >= context_.window_cap_packets;
  if (last || closes || ++unrequested_ >= std::min(context_.env.ack_every, window / 2) || credit_limited(wqe)) {
    unrequested_ = 0;
    return true;
  }
  return false;
}

bool Requester::poll_transmit(TxFrame& frame, Instant now) {
  if (selective_ && wants_again() && poll_again(frame, now)) return true;
  while (may_send()) {
    SendWqe& wqe = ring_.at(cursor_);
    if (wqe.is_local()) {
      if (wqe.done) {
        cursor_++;  // carried out before the cursor was moved back
      } else if (!run_local(wqe, now)) {
        return false;
      }
      continue;
    }
    if (wqe.needs_response() && context_.attributes.max_rd_atomic == 0) {
      set_local_error(Cause::kReadResources, now);
      return false;
    }
    if (!wqe.started) start_wqe(wqe);
    const bool ack_req = wants_ack(wqe, cursor_packet_);
    const Cause cause = encode_request(context_, wqe, cursor_packet_, next_psn_, ack_req, frame);
    if (cause != Cause::kNone) {
      set_local_error(cause, now);
      return false;
    }
    if (next_psn_.before(high_psn_)) {
      context_.counters().retransmits++;
    } else if (ack_req) {
      rtt_.on_sent(next_psn_, now);
    }
    // What the peer has carried out is sent again only to get its response: that is not the board's business.
    if (selective_ && !next_psn_.before(selective_->delivered)) selective_->board.on_sent(next_psn_, cursor_, now);
    advance_cursor(wqe, now);
    if (selective_) on_activity(now);
    return true;
  }
  return false;
}

void Requester::advance_cursor(const SendWqe& wqe, Instant now) {
  const uint32_t psns = wqe.is_read() ? wqe.packets - cursor_packet_ : 1;
  if (wqe.needs_response()) rd_atomic_in_flight_++;
  next_psn_ += psns;
  cursor_packet_ += psns;
  if (cursor_packet_ == wqe.packets) {
    cursor_++;
    cursor_packet_ = 0;
  }
  if (high_psn_.before(next_psn_)) high_psn_ = next_psn_;
  if (deadline_ == Instant::never() && context_.attributes.timeout != 0) {
    deadline_ = now + answer_time();
  }
}

/// The work request at the cursor cannot be sent. It fails in its turn: after everything before it.
void Requester::set_local_error(Cause cause, Instant now) {
  local_error_ = cause;
  settle_head(now);
}

void Requester::rewind() {
  rtt_.forget();
  cursor_ = ring_.head();
  const bool inside = !ring_.empty() && ring_.front().started && !ring_.front().is_local();
  cursor_packet_ = inside ? static_cast<uint32_t>(distance(ring_.front().first_psn, una_)) : 0;
  next_psn_ = una_;
  rd_atomic_in_flight_ = 0;
  unrequested_ = 0;
  heard_ = false;
  local_error_ = Cause::kNone;  // met again when the cursor comes there
  if (selective_) {
    selective_->board.clear();
    selective_->delivered = una_;  // what is sent again stands on the board again
  }
}

void Requester::shrink_window() {
  window_ = std::max(window_ / 2, std::min(kWindowFloor, context_.env.window_packets));
}

void Requester::on_path_resolved() {
  if (una_ != high_psn_ && !rnr_wait_) rewind();
}

void Requester::on_timeout(Instant now) {
  if (rnr_wait_) {
    if (now < rnr_until_) return;
    rnr_wait_ = false;
    rnr_until_ = deadline_ = Instant::never();
    return;
  }
  if (selective_) on_repeat_timer(now);
  if (now < deadline_) return;
  deadline_ = Instant::never();
  if (una_ == high_psn_) return;
  context_.counters().local_ack_timeout_err++;
  if (timeouts_ < 2) timeouts_++;
  implied_nak_ = false;
  shrink_window();
  retry(context_.path_resolved ? Cause::kTimeout : Cause::kPeerUnresolved, now);
}

/// How long to wait for an answer: once, twice, then four times the timeout that was asked for. The specification lets
/// the timer run up to four times as long. A peer in software that waits for a CPU has more time before it is given up,
/// and the first retransmission is as prompt as it can be.
Duration Requester::answer_time() const { return ack_timeout(context_.attributes.timeout) * (1 << timeouts_); }

Instant Requester::next_timeout() const {
  if (rnr_wait_) return rnr_until_;
  return selective_ ? std::min(deadline_, repeat_timer()) : deadline_;
}

bool Requester::drained() const { return una_ == high_psn_ && (cursor_ == ring_.tail() || !ring_.at(cursor_).started); }

void Requester::flush(Instant now) {
  deadline_ = rnr_until_ = Instant::never();
  rnr_wait_ = false;
  local_error_ = Cause::kNone;
  while (!ring_.empty()) take_head(Cause::kFlushed, now);
  next_psn_ = high_psn_;
  reset();
}

}  // namespace uroce
