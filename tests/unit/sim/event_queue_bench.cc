// How many events a second the simulator's queue handles, beside std::priority_queue in the same run.
//
//   event_queue_bench [PENDING [EVENTS]]
//
// Every event schedules one more, so that as many as asked for are pending all the time. The delays are those of a
// network of 100 Gb/s: most are a frame's time or a link's, a few are timers.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <queue>

#include "base/random.h"
#include "sim/event_queue.h"

namespace {

using uroce::Instant;
using uroce::sim::StoredEvent;

constexpr unsigned kDelays = 4096;

struct Delays {
  Delays() {
    uroce::SeededRandom random(1);
    for (int64_t& delay : ns) {
      const uint32_t kind = random.below(100);
      delay = kind < 45 ? 85 : kind < 90 ? 1085 + random.below(10'000) : 4'000 + random.below(4'000'000);
    }
  }
  int64_t next() { return ns[at_++ % kDelays]; }
  int64_t ns[kDelays];

 private:
  unsigned at_ = 0;
};

/// The simulator's earlier queue.
class Reference {
 public:
  Instant now() const { return now_; }
  template <typename Self>
  void schedule(uroce::sim::Actor<Self>& actor, Instant when, typename Self::Event event) {
    events_.push({when, order_++, &actor, StoredEvent::of(event)});
  }
  void step() {
    const Due due = events_.top();
    events_.pop();
    now_ = due.when;
    due.actor->handle(due.event, nullptr, now_);
  }

 private:
  struct Due {
    Instant when;
    uint64_t order;
    uroce::sim::AnyActor* actor;
    StoredEvent event;
    bool operator<(const Due& other) const { return when != other.when ? when > other.when : order > other.order; }
  };
  std::priority_queue<Due> events_;
  Instant now_{1'000'000'000};
  uint64_t order_ = 0;
};

template <typename Queue>
class Repeater final : public uroce::sim::Actor<Repeater<Queue>> {
 public:
  using Event = uint32_t;

  explicit Repeater(Queue& queue) : queue_(queue) {}
  void on_event(Event event, Instant now) {
    sum = sum * 31 + static_cast<uint64_t>(now.ns) + event;
    queue_.schedule(*this, now + uroce::nanoseconds(delays_.next()), event);
  }
  uint64_t sum = 0;

 private:
  Queue& queue_;
  Delays delays_;
};

struct Figure {
  double per_second;
  uint64_t sum;
};

template <typename Queue>
Figure measure(uint64_t pending, uint64_t events) {
  Queue queue;
  Repeater<Queue> actor(queue);
  Delays delays;
  for (uint32_t i = 0; i < pending; i++) queue.schedule(actor, queue.now() + uroce::nanoseconds(delays.next()), i);
  for (uint64_t i = 0; i < pending; i++) queue.step();
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < events; i++) queue.step();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return {static_cast<double>(events) / took.count(), actor.sum};
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t pending = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 50'000;
  const uint64_t events = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 10'000'000;
  if (pending == 0 || events == 0) return 2;
  const Figure reference = measure<Reference>(pending, events);
  const Figure ours = measure<uroce::sim::EventQueue>(pending, events);
  std::printf("%llu pending, %llu events\n", static_cast<unsigned long long>(pending),
              static_cast<unsigned long long>(events));
  std::printf("std::priority_queue  %6.2f M events/s\n", reference.per_second / 1e6);
  std::printf("EventQueue           %6.2f M events/s\n", ours.per_second / 1e6);
  if (reference.sum != ours.sum) {
    std::printf("the two handled events in different orders\n");
    return 1;
  }
  return 0;
}
