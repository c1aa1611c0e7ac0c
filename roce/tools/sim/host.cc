#include "sim/host.h"

#include <algorithm>

#include "base/check.h"

namespace uroce::sim {

Host::Host(EventQueue& events, const EngineConfig& config, uint64_t seed)
    : events_(events), config_(config), seed_(seed), random_(seed), port_(config.max_frame_bytes, *this) {
  engine_.emplace(config_, port_, random_, observer_);
}

void Host::leap(Duration forward) {
  ensure(forward.ns >= 0, "a host's clock never goes back");
  ahead_.ns += forward.ns;
  wake_at(events_.now());
}

void Host::restart_engine(bool same_numbers) {
  engine_.reset();
  if (same_numbers) random_ = SeededRandom(seed_);
  engine_.emplace(config_, port_, random_, observer_);
  timer_at_ = Instant::never();
  wake();
}

void Host::wake_at(Instant when) {
  if (wakes_at_ <= when) return;
  ensure(when >= events_.now(), "nobody is woken in the past");
  wakes_at_ = when;
  events_.schedule(*this, when, Event::kTurn);
}

Instant Host::next_timeout() const {
  const Instant of_engine = engine_->next_timeout();
  return deadline_ ? std::min(of_engine, deadline_()) : of_engine;
}

void Host::watch_timers() {
  Instant wanted = next_timeout();
  if (wanted != Instant::never()) wanted = {std::max(wanted, now()).ns - ahead_.ns};  // may be in the past
  if (wanted <= events_.now() && !port_.has_room()) return port_.wake_when_room();
  if (timer_at_ <= wanted) return;
  timer_at_ = std::max(wanted, events_.now() + nanoseconds(1));
  events_.schedule(*this, timer_at_, Event::kTimer);
}

void Host::turn(Instant now) {
  engine_->turn(now + ahead_);
  if (program_) program_();
  if (port_.has_received() || (engine_->wants_transmit() && port_.has_room())) {
    wake_at(now + std::max(turn_delay_, nanoseconds(1)));
  } else if (engine_->wants_transmit()) {
    port_.wake_when_room();
  }
  watch_timers();
}

void Host::on_event(Event event, Instant now) {
  switch (event) {
    case Event::kTurn:
      return on_wake(now);
    case Event::kTimer:
      return on_timer(now);
  }
}

void Host::on_wake(Instant now) {
  if (wakes_at_ != now) return;  // an earlier event took its place
  wakes_at_ = Instant::never();
  turn(now);
}

void Host::on_timer(Instant now) {
  if (timer_at_ != now) return;
  timer_at_ = Instant::never();
  if (next_timeout() <= this->now()) {
    turn(now);
  } else {
    watch_timers();
  }
}

}  // namespace uroce::sim
