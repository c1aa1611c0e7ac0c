// The requester between our own peers: selective ACKs in, exactly what is lost out.
//
// Two things can get lost, and each has its own record. Requests: the scoreboard knows which of them the peer has, and
// the lost ones are sent again. Responses of READs and atomics: those that come early are held, and what is missing
// between them is asked for by a READ of just that part, or by the atomic, both of which the peer knows as duplicates.
// A part of a READ may be asked for only when the peer has carried out the READ: before that it would be a new, shorter
// one.
//
// None of this touches `deadline_` or `retry_left_`: when the peer is gone, its end comes exactly as without.
#include <algorithm>

#include "transport/request_encoder.h"
#include "transport/requester.h"
#include "transport/timing.h"

namespace uroce {

namespace {

constexpr uint64_t kLaterResponses = 3;  // as with requests: fewer may have been overtaken
constexpr Duration kProbeSlack = microseconds(10);
constexpr uint8_t kProbeDoublings = 6;
constexpr uint32_t kGapsLookedAt = 32;

}  // namespace

void Requester::forget_repeats() {
  SelectiveRepeat& s = *selective_;
  s.board.clear();
  s.responses.clear();
  s.asking = s.tail_gap = false;
  s.asked = 0;
  s.gap_since = s.probe_at = Instant::never();
  s.probe = SelectiveRepeat::Probe::kNone;
  s.probes = 0;
}

// Requests

void Requester::on_selective_ack(const PacketView& packet, Instant now) {
  // From a stranger it is what it always was. It may be the first that we hear of one of ours.
  if (!selective_ || !(context_.peer.selective() || packet.signed_with(context_.peer_signature))) {
    context_.counters().rx_drop_unknown_opcode++;
    return;
  }
  const Aeth aeth = packet.aeth();
  if (aeth_kind(aeth.syndrome) != AethKind::kAck || !sack_length_holds(packet.payload_bytes)) {
    context_.counters().rx_drop_bad_sack++;
    return;
  }
  const Psn next = packet.bth.psn + 1;
  if (!outstanding(packet.bth.psn) && next != una_) {
    context_.counters().rx_drop_ghost_ack++;
    return;
  }
  context_.counters().rx_sack++;
  learn_credits(aeth);
  const Reached reached = acknowledge(next, now);
  if (reached == Reached::kFailed) return;
  check_dropped(next, now);
  // An old one: what it says of ranges may not be true any more.
  if (next.before(selective_->delivered)) return;
  read_ranges(packet, now);
  selective_->active_at = now;
  if (selective_->board.find_lost() != 0) context_.on_loss(now);
  if (reached == Reached::kBlocked) on_blocked_ack(now);
}

/// Ranges that cannot be are left out: one packet with a strange PSN that the peer holds must not make us deaf.
void Requester::read_ranges(const PacketView& packet, Instant now) {
  const uint32_t count = packet.payload_bytes / SackRange::kBytes;
  bool bad = false;
  for (uint32_t i = 0; i < count; i++) {
    const SackRange range = SackRange::decode(packet.payload + i * SackRange::kBytes);
    // Behind the gap that begins with the PSN after this ACK's, and nothing that was never sent.
    const bool possible =
        (packet.bth.psn + 1).before(range.first) && range.first.before(range.end) && !high_psn_.before(range.end);
    if (possible) {
      selective_->board.on_held(range, now);
    } else {
      bad = true;
    }
  }
  if (bad) context_.counters().rx_drop_bad_sack++;
  tell_rtt(now);
}

/// The peer has carried out everything before `upto`.
void Requester::on_delivered(Psn upto, Instant now) {
  SelectiveRepeat& s = *selective_;
  if (!s.delivered.before(upto)) return;
  s.delivered = upto;
  s.board.on_arrived(upto, now);
  tell_rtt(now);
  if (s.board.find_lost() != 0) context_.on_loss(now);
  if (s.board.spurious() != s.spurious) {
    context_.counters().spurious_retransmits += s.board.spurious() - s.spurious;
    s.spurious = s.board.spurious();
  }
}

/// The peer says that it expects `next`. If it said before that it holds that one, it has dropped what it held: it had
/// no receive, or others needed its slots, and its NAK was lost.
void Requester::check_dropped(Psn next, Instant now) {
  SelectiveRepeat& s = *selective_;
  if (next != s.delivered || !s.board.contradicts(next)) return;
  s.board.on_dropped();
  context_.on_loss(now);
}

/// The board measures what was sent once also while other packets are sent again.
void Requester::tell_rtt(Instant now) {
  SelectiveRepeat& s = *selective_;
  if (s.board.rtt().samples() == s.samples) return;
  s.samples = s.board.rtt().samples();
  context_.on_rtt(s.board.rtt().latest(), now);
}

bool Requester::send_again(uint32_t entry, bool probe, TxFrame& frame, Instant now) {
  const Scoreboard::Sent& sent = selective_->board.at(entry);
  if (sent.work - ring_.head() >= ring_.size()) {
    rewind();  // its work request is gone: the board is not what it should be, and is made anew
    return false;
  }
  const SendWqe& wqe = ring_.at(sent.work);
  const auto index = static_cast<uint32_t>(distance(wqe.first_psn, sent.psn));
  if (encode_request(context_, wqe, index, sent.psn, true, frame) != Cause::kNone) {
    rewind();  // the cursor meets it in its turn, and reports it
    return false;
  }
  rtt_.forget();
  selective_->board.on_sent_again(entry, now, probe);
  context_.counters().retransmits++;
  if (probe) {
    context_.counters().tail_loss_probes++;
  } else {
    context_.counters().selective_retransmits++;
  }
  return true;
}

// Responses

/// A response that is not the one waited for.
void Requester::hold_response(const PacketView& packet, Instant now) {
  SelectiveRepeat& s = *selective_;
  switch (s.responses.hold(packet, 1, now)) {
    case ReorderBuffer::Result::kHeld:
      context_.counters().rx_out_of_order_held++;
      break;
    case ReorderBuffer::Result::kAgain:
      context_.counters().rx_drop_held_already++;
      return;
    case ReorderBuffer::Result::kFull:
      context_.counters().rx_drop_reorder_full++;
      return on_blocked_ack(now);  // it came from beyond the gap all the same
  }
  s.arrivals++;
  uint64_t& first = s.responses.arrivals(s.responses.newest_run());
  if (first == 0) first = s.arrivals;
  if (s.gap_since == Instant::never()) s.gap_since = now;
}

/// An ACK from beyond a READ or atomic that waits for its response.
void Requester::on_blocked_ack(Instant now) {
  SelectiveRepeat& s = *selective_;
  s.arrivals++;
  if (!s.tail_gap) {
    s.tail_gap = true;
    s.tail_arrivals = s.arrivals;
    s.tail_asked_at = Instant{0};
  }
  if (s.gap_since == Instant::never()) s.gap_since = now;
}

/// What is held and what the peer is known to have carried out may have its turn now.
void Requester::after_responses(Instant now) {
  SelectiveRepeat& s = *selective_;
  if (s.responses.empty() && !s.tail_gap) return;
  const Psn before = una_;
  while (!context_.failed && !ring_.empty()) {
    if (acknowledge(s.delivered, now) == Reached::kFailed) return;
    PacketView packet;
    if (!s.responses.take(una_, packet)) break;
    const Psn at = una_;
    packet.info->operation == Operation::kReadResponse ? on_read_response(packet, now)
                                                       : on_atomic_response(packet, now);
    if (una_ == at) break;  // not the response that belongs there: it is gone, and will be asked for
  }
  if (context_.failed) return;
  if (s.tail_gap && !una_.before(s.delivered)) s.tail_gap = false;
  const bool gap = !s.responses.empty() || s.tail_gap;
  if (!gap) {
    s.gap_since = Instant::never();
  } else if (una_ != before) {
    s.gap_since = now;
  }
  if (gap) check_gaps(false, now);
}

/// Position of the first READ or atomic that ends behind `from`.
uint32_t Requester::find_response(Psn from) const {
  for (uint32_t at = ring_.head(); at != ring_.tail(); at++) {
    const SendWqe& wqe = ring_.at(at);
    if (!wqe.started) {
      if (wqe.is_local()) continue;
      break;
    }
    if (wqe.needs_response() && !wqe.last_psn().before(from)) return at;
  }
  return ring_.tail();
}

bool Requester::needs_responses(Psn from, Psn to) const {
  const uint32_t at = find_response(from);
  return at != ring_.tail() && ring_.at(at).first_psn.before(to);
}

/// Looks for a gap whose time has come. `first_at_once`: that of the first one has.
void Requester::check_gaps(bool first_at_once, Instant now) {
  SelectiveRepeat& s = *selective_;
  const uint32_t most = std::max<uint32_t>(context_.attributes.max_rd_atomic, 1);
  if (s.asking || (!first_at_once && s.asked >= most)) return;
  const auto ripe = [&](Instant asked_at, uint64_t first_arrival) {
    if (asked_at == Instant{0}) return s.arrivals - first_arrival + 1 >= kLaterResponses;
    return s.board.rtt().known() && now - asked_at > patience() * 2;
  };
  Psn from = una_;
  uint32_t run = s.responses.first_run();
  for (uint32_t n = 0; n < kGapsLookedAt; n++) {
    const bool tail = run == ReorderBuffer::kNone;
    if (tail && !s.tail_gap && !first_at_once) return;
    Psn to = s.delivered;
    if (!tail) to = s.responses.range(run).first;
    // Nothing came from beyond, but the READ at the head is under way: all of the rest.
    if (tail && !s.tail_gap && !ring_.empty()) to = ring_.front().last_psn() + 1;
    Instant& asked_at = tail ? s.tail_asked_at : s.responses.asked_at(run);
    const uint64_t first_arrival = tail ? s.tail_arrivals : s.responses.arrivals(run);
    if (from.before(to) && needs_responses(from, to) && (first_at_once || ripe(asked_at, first_arrival))) {
      asked_at = now;
      s.asking = true;
      s.ask_next = from;
      s.ask_end = to;
      return;
    }
    if (tail) return;
    first_at_once = false;
    from = s.responses.range(run).end;
    run = s.responses.run_after(run);
  }
}

/// The next request for what is missing in the gap. False: there is none.
bool Requester::ask_again(TxFrame& frame, Instant now) {
  SelectiveRepeat& s = *selective_;
  if (s.ask_next.before(una_)) s.ask_next = una_;
  const uint32_t at = find_response(s.ask_next);
  s.asking = false;
  if (at == ring_.tail()) return false;
  const SendWqe& wqe = ring_.at(at);
  const Psn from = s.ask_next.before(wqe.first_psn) ? wqe.first_psn : s.ask_next;
  const Psn to = s.ask_end.before(wqe.last_psn() + 1) ? s.ask_end : wqe.last_psn() + 1;
  // The peer must have carried it out. If not, it is the scoreboard's.
  if (!from.before(to) || !wqe.first_psn.before(s.delivered)) return false;
  const auto index = static_cast<uint32_t>(distance(wqe.first_psn, from));
  const auto psns = static_cast<uint32_t>(distance(from, to));
  if (encode_request(context_, wqe, index, from, true, frame, psns) != Cause::kNone) return false;
  s.asked_parts = true;
  s.asked++;
  s.ask_next = to;
  s.asking = to.before(s.ask_end);
  context_.counters().retransmits++;
  context_.counters().response_gaps_asked++;
  rtt_.forget();
  on_activity(now);
  return true;
}

// What goes out beside the cursor

bool Requester::wants_again() const {
  const SelectiveRepeat& s = *selective_;
  const bool running = context_.state == QpState::kRts || context_.state == QpState::kSqd;
  if (!running || rnr_wait_) return false;
  return s.asking || s.board.lost() != Scoreboard::kNone || s.probe != SelectiveRepeat::Probe::kNone;
}

bool Requester::poll_again(TxFrame& frame, Instant now) {
  SelectiveRepeat& s = *selective_;
  while (s.asking) {
    if (ask_again(frame, now)) return true;
  }
  const uint32_t lost = s.board.lost();
  if (lost != Scoreboard::kNone) return send_again(lost, false, frame, now);
  const bool last = s.probe == SelectiveRepeat::Probe::kLast;
  const uint32_t entry = last ? s.board.last_open() : s.board.first_open();
  s.probe = SelectiveRepeat::Probe::kNone;
  return entry != Scoreboard::kNone && send_again(entry, true, frame, now);
}

// Timers

void Requester::on_activity(Instant now) {
  SelectiveRepeat& s = *selective_;
  s.active_at = now;
  if (una_ == high_psn_ && una_ == next_psn_) {
    s.probe_at = Instant::never();
  } else if (s.probe_at == Instant::never() && context_.peer.selective() && s.board.rtt().known()) {
    s.probe_at = now + probe_time();
  }
}

/// How long something that was overtaken may still be only late.
Duration Requester::patience() const {
  const RttSampler& rtt = selective_->board.rtt();
  return {rtt.smoothed().ns + rtt.smoothed().ns / 4 + rtt.variation().ns};
}

/// Silence after which the last packet, or its answer, is taken to be lost.
Duration Requester::probe_time() const {
  const RttSampler& rtt = selective_->board.rtt();
  const Duration once{2 * rtt.smoothed().ns + context_.env.ack_hold.ns + kProbeSlack.ns};
  return once * (int64_t{1} << std::min(selective_->probes, kProbeDoublings));
}

bool Requester::response_overdue() const {
  const SelectiveRepeat& s = *selective_;
  return s.gap_since != Instant::never() && !s.asking && s.asked == 0 && s.board.rtt().known();
}

Instant Requester::repeat_timer() const {
  const SelectiveRepeat& s = *selective_;
  Instant when = s.probe_at;
  if (!s.board.rtt().known()) return when;
  when = std::min(when, s.board.late_at(patience()));
  if (response_overdue()) when = std::min(when, s.gap_since + Duration{patience().ns - s.board.rtt().smoothed().ns});
  return when;
}

void Requester::on_repeat_timer(Instant now) {
  SelectiveRepeat& s = *selective_;
  if (!s.board.rtt().known()) return;
  if (s.board.find_late(now, patience()) != 0) context_.on_loss(now);
  if (response_overdue() && s.gap_since + Duration{patience().ns - s.board.rtt().smoothed().ns} <= now) {
    check_gaps(true, now);
    s.asked = std::max(s.asked, 1u);  // this timer fires once until there is progress
  }
  if (now < s.probe_at) return;
  s.probe_at = Instant::never();
  if (una_ == high_psn_ || !context_.peer.selective()) return;
  const Instant due = s.active_at + probe_time();
  if (now < due) {
    s.probe_at = due;
    return;
  }
  s.probe = s.probes % 2 == 0 ? SelectiveRepeat::Probe::kLast : SelectiveRepeat::Probe::kFirst;
  if (s.probes < UINT8_MAX) s.probes++;
  s.probe_at = now + probe_time();
  s.active_at = now;
  const bool response_missing = !ring_.empty() && ring_.front().started && ring_.front().needs_response() &&
                                ring_.front().first_psn.before(s.delivered);
  if (response_missing) check_gaps(true, now);
}

}  // namespace uroce
