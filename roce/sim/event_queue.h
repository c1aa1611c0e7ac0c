// The virtual clock: time is that of the event being handled, and jumps to the next one.
//
// Events of the same instant are handled in the order in which they were scheduled, so a run depends on nothing but its
// seed. Actors must outlive their events.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "base/time.h"
#include "sim/actor.h"

namespace uroce::sim {

class EventQueue {
 public:
  explicit EventQueue(Instant start = {1'000'000'000}) : now_(start) {}

  Instant now() const { return now_; }
  void schedule(Actor& actor, Instant when, uint64_t what = 0) {
    events_.push({when < now_ ? now_ : when, order_++, &actor, what});
  }
  bool empty() const { return events_.empty(); }
  /// When the next event is due; Instant::never() when there is none.
  Instant next() const { return events_.empty() ? Instant::never() : events_.top().when; }
  uint64_t handled() const { return handled_; }

  /// Handles the next event. There must be one.
  void step() {
    const Event event = events_.top();
    events_.pop();
    now_ = event.when;
    handled_++;
    event.actor->on_event(event.what, now_);
  }
  /// Nothing happens until `when`. No event may be due before.
  void advance_to(Instant when) {
    if (now_ < when) now_ = when;
  }

 private:
  struct Event {
    Instant when;
    uint64_t order;
    Actor* actor;
    uint64_t what;
    bool operator<(const Event& other) const {
      return when != other.when ? when > other.when : order > other.order;  // the queue's top is its largest
    }
  };
  std::priority_queue<Event> events_;
  Instant now_;
  uint64_t order_ = 0;
  uint64_t handled_ = 0;
};

}  // namespace uroce::sim
