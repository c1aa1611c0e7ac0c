#include "transport/response_recovery.h"

#include <algorithm>

namespace uroce {

namespace {

constexpr uint64_t kLaterResponses = 3;  // as with requests: with fewer, the missing ones may have been overtaken only
constexpr uint32_t kGapsLookedAt = 32;

}  // namespace

void ResponseRecovery::reset() {
  restart();
  asked_parts_ = false;
}

void ResponseRecovery::restart() {
  held_.clear();
  asking_ = tail_gap_ = false;
  asked_ = 0;
  gap_since_ = Instant::never();
}

ReorderBuffer::Result ResponseRecovery::hold(const PacketView& packet, Instant now) {
  const ReorderBuffer::Result result = held_.hold(packet, 1, now);
  if (result == ReorderBuffer::Result::kFull) on_answer_beyond(now);
  if (result != ReorderBuffer::Result::kHeld) return result;
  arrivals_++;
  uint64_t& first = held_.arrivals(held_.newest_run());
  if (first == 0) first = arrivals_;
  if (gap_since_ == Instant::never()) gap_since_ = now;
  return result;
}

void ResponseRecovery::on_answer_beyond(Instant now) {
  arrivals_++;
  if (!tail_gap_) {
    tail_gap_ = true;
    tail_arrivals_ = arrivals_;
    tail_asked_at_ = Instant{0};
  }
  if (gap_since_ == Instant::never()) gap_since_ = now;
}

void ResponseRecovery::after_taking(bool further, Instant now) {
  if (tail_gap_ && !window_.una().before(requests_.delivered())) tail_gap_ = false;
  if (!has_gap()) {
    gap_since_ = Instant::never();
  } else if (further) {
    gap_since_ = now;
  }
}

/// The position in the send queue of the first READ or atomic that ends behind `from`.
uint32_t ResponseRecovery::find_response(Psn from) const {
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

/// True when responses of READs or atomics belong in the gap.
bool ResponseRecovery::is_missing(const Gap& gap) const {
  if (!gap.begin.before(gap.end)) return false;
  const uint32_t at = find_response(gap.begin);
  return at != ring_.tail() && ring_.at(at).first_psn.before(gap.end);
}

/// True when enough has come behind the gap, or when it was asked for and the answer is lost, too.
bool ResponseRecovery::ripe(Instant asked_at, uint64_t first_arrival, Instant now) const {
  if (asked_at == Instant{0}) return arrivals_ - first_arrival + 1 >= kLaterResponses;
  return requests_.rtt().known() && now - asked_at > requests_.patience() * 2;
}

void ResponseRecovery::find_gap(Patience patience, uint32_t limit, Instant now) {
  bool first_at_once = patience == Patience::kNoneForFirst;
  if (asking_ || (!first_at_once && asked_ >= limit)) return;
  Psn from = window_.una();
  uint32_t run = held_.first_run();
  for (uint32_t n = 0; n < kGapsLookedAt; n++) {
    const bool tail = run == ReorderBuffer::kNone;
    if (tail && !tail_gap_ && !first_at_once) return;
    Psn to = requests_.delivered();
    if (!tail) to = held_.range(run).first;
    // Nothing came for later requests, but the READ at the head is under way: all the rest of it is the gap.
    if (tail && !tail_gap_ && !ring_.empty()) to = ring_.front().last_psn() + 1;
    Instant& asked_at = tail ? tail_asked_at_ : held_.asked_at(run);
    const uint64_t first_arrival = tail ? tail_arrivals_ : held_.arrivals(run);
    if (is_missing({from, to}) && (first_at_once || ripe(asked_at, first_arrival, now))) {
      asked_at = now;
      asking_ = true;
      gap_ = {from, to};
      return;
    }
    if (tail) return;
    first_at_once = false;
    from = held_.range(run).end;
    run = held_.run_after(run);
  }
}

void ResponseRecovery::expire(Instant now) {
  if (now < next_timeout()) return;
  look_at_first(now);
  asked_ = std::max(asked_, 1u);  // this timer fires once until there is progress
}

std::optional<ResponseRecovery::Ask> ResponseRecovery::take_ask() {
  asking_ = false;
  if (gap_.begin.before(window_.una())) gap_.begin = window_.una();
  const uint32_t at = find_response(gap_.begin);
  if (at == ring_.tail()) return std::nullopt;
  const SendWqe& wqe = ring_.at(at);
  const Psn from = gap_.begin.before(wqe.first_psn) ? wqe.first_psn : gap_.begin;
  const Psn end = wqe.last_psn() + 1;
  const Psn to = gap_.end.before(end) ? gap_.end : end;
  // The peer must have carried out the request. If it has not, RequestRecovery sends the request again.
  if (!from.before(to) || !wqe.first_psn.before(requests_.delivered())) return std::nullopt;
  return Ask{.work = at,
             .index = static_cast<uint32_t>(distance(wqe.first_psn, from)),
             .psn = from,
             .packets = static_cast<uint32_t>(distance(from, to))};
}

void ResponseRecovery::on_asked(const Ask& ask) {
  asked_parts_ = true;
  asked_++;
  gap_.begin = ask.psn + ask.packets;
  asking_ = gap_.begin.before(gap_.end);
}

}  // namespace uroce
