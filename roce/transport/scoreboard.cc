#include "transport/scoreboard.h"

#include <algorithm>

#include "base/check.h"

namespace uroce {

void Scoreboard::clear() {
  ring_.clear();
  under_way_ = lost_ = List{};
  held_ = 0;
}

void Scoreboard::append(List& list, uint32_t entry) {
  Sent& sent = ring_.at(entry);
  sent.before = list.tail;
  sent.after = kNone;
  (list.tail == kNone ? list.head : ring_.at(list.tail).after) = entry;
  list.tail = entry;
}

void Scoreboard::unlink(List& list, uint32_t entry) {
  const Sent& sent = ring_.at(entry);
  (sent.before == kNone ? list.head : ring_.at(sent.before).after) = sent.after;
  (sent.after == kNone ? list.tail : ring_.at(sent.after).before) = sent.before;
}

void Scoreboard::leave_list(uint32_t entry) {
  switch (ring_.at(entry).state) {
    case State::kUnderWay:
      return unlink(under_way_, entry);
    case State::kLost:
      return unlink(lost_, entry);
    case State::kHeld:
      ensure(held_ != 0, "what is held was counted");
      held_--;
  }
}

void Scoreboard::on_sent(Psn psn, uint32_t work, Instant now) {
  ensure(ring_.empty() || ring_.at(ring_.tail() - 1).psn.before(psn), "packets leave in the order of their PSNs");
  const uint32_t entry = ring_.slot(ring_.tail());
  Sent& sent = ring_.next_slot();  // filled in place: copying what was just written in parts would stall
  sent.psn = psn;
  sent.work = work;
  sent.at = now;
  sent.number = ++number_;
  sent.state = State::kUnderWay;
  sent.again = sent.probe = false;
  ring_.push();
  append(under_way_, entry);
}

void Scoreboard::on_sent_again(uint32_t entry, Instant now, bool probe) {
  Sent& sent = ring_.at(entry);
  leave_list(entry);
  sent.state = State::kUnderWay;
  sent.at = now;
  sent.number = ++number_;
  sent.again = true;
  sent.probe = probe;
  append(under_way_, entry);
}

/// Takes a packet that arrived off its list, and notes what its arrival tells about the others.
void Scoreboard::arrived(uint32_t entry, Instant now, Sample& sample) {
  const Sent& sent = ring_.at(entry);
  unlink(sent.state == State::kLost ? lost_ : under_way_, entry);
  const Duration age = now - sent.at;
  if (sent.number > sample.number) sample = {sent.number, sent.again ? Duration{0} : age};
  if (sent.probe) {
    // A probe follows a long silence, so everything sent before it that did not arrive is lost. The answer is taken to
    // be to the probe even when it comes sooner than any before, because the known round trips may be those of a full
    // queue.
    newest_.fill(std::max(newest_[0], sent.number));
    return;
  }
  if (sent.again && rtt_.known() && age < rtt_.minimum()) {
    spurious_++;  // the answer is to an earlier copy
    return;
  }
  uint64_t number = sent.number;
  for (uint64_t& known : newest_) {
    if (number > known) std::swap(number, known);
  }
}

void Scoreboard::add(const Sample& sample) {
  if (sample.age.ns > 0) rtt_.add(sample.age);
}

void Scoreboard::on_arrived(Psn upto, Instant now) {
  Sample sample;
  while (!ring_.empty() && ring_.front().psn.before(upto)) {
    if (ring_.front().state == State::kHeld) {
      held_--;
    } else {
      arrived(ring_.slot(ring_.head()), now, sample);
    }
    ring_.pop();
  }
  add(sample);
}

/// The position of the first packet that does not lie before `psn`.
uint32_t Scoreboard::find(Psn psn) const {
  uint32_t low = 0;
  uint32_t high = ring_.size();
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (ring_.at(ring_.head() + middle).psn.before(psn)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return ring_.head() + low;
}

void Scoreboard::on_held(const SackRange& range, Instant now) {
  Sample sample;
  for (uint32_t at = find(range.first); at != ring_.tail() && ring_.at(at).psn.before(range.end); at++) {
    Sent& sent = ring_.at(at);
    if (sent.state == State::kHeld) continue;
    arrived(ring_.slot(at), now, sample);
    sent.state = State::kHeld;
    held_++;
  }
  add(sample);
}

uint32_t Scoreboard::on_dropped() {
  const uint32_t count = held_;
  for (uint32_t at = ring_.head(); held_ != 0; at++) {
    Sent& sent = ring_.at(at);
    if (sent.state != State::kHeld) continue;
    held_--;
    sent.state = State::kLost;
    append(lost_, ring_.slot(at));
  }
  return count;
}

uint32_t Scoreboard::find_lost() {
  uint32_t count = 0;
  while (under_way_.head != kNone && ring_.at(under_way_.head).number < newest_.back()) {
    lose(under_way_.head);
    count++;
  }
  return count;
}

void Scoreboard::lose(uint32_t entry) {
  unlink(under_way_, entry);
  ring_.at(entry).state = State::kLost;
  append(lost_, entry);
}

Instant Scoreboard::late_at(Duration patience) const {
  if (under_way_.head == kNone) return Instant::never();
  const Sent& oldest = ring_.at(under_way_.head);
  return oldest.number < newest_.front() ? oldest.at + patience : Instant::never();
}

uint32_t Scoreboard::find_late(Instant now, Duration patience) {
  uint32_t count = 0;
  while (late_at(patience) <= now) {
    lose(under_way_.head);
    count++;
  }
  return count;
}

uint32_t Scoreboard::last_open() const {
  for (uint32_t left = ring_.size(); left > 0; left--) {
    const uint32_t at = ring_.head() + left - 1;
    if (ring_.at(at).state != State::kHeld) return ring_.slot(at);
  }
  return ring_.empty() ? kNone : ring_.slot(ring_.head());
}

uint32_t Scoreboard::first_open() const {
  for (uint32_t at = ring_.head(); at != ring_.tail(); at++) {
    if (ring_.at(at).state != State::kHeld) return ring_.slot(at);
  }
  return ring_.empty() ? kNone : ring_.slot(ring_.head());
}

}  // namespace uroce
