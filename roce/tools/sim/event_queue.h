// The virtual clock: time is that of the event being handled, and jumps to that of the next one.
//
// Events of the same instant are handled in the order in which they were scheduled, so a run depends on nothing but its
// seed. Actors must outlive the events that are handled. Events that are still pending when the queue is destroyed only
// give back their frames, so their actors may be gone by then.
//
// Inside, a monotone radix queue (a timing wheel with a resolution of one nanosecond): an event lies at the level of
// the highest byte in which its instant differs from the last one handled, in the slot which that byte names. Time only
// moves forward, so an event moves down a level when its turn comes near, at most seven times and usually once or
// twice; nothing is ever compared or sorted. All events of an instant lie in the same slot at all times, and moving
// keeps their order.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "sim/actor.h"
#include "sim/frame.h"
#include "uroce/time.h"

namespace uroce::sim {

class EventQueue {
 public:
  explicit EventQueue(Instant start = {1'000'000'000}) : now_(start), base_(static_cast<uint64_t>(start.ns)) {}
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  Instant now() const { return now_; }
  /// `actor` is told `event` at `when`, or now when that is in the past.
  template <typename Self>
  void schedule(Actor<Self>& actor, Instant when, typename Self::Event event) {
    add(when, {&actor, nullptr, StoredEvent::of(event)});
  }
  /// The same with a frame, which the queue owns until the event is due.
  template <typename Self>
  void schedule(Actor<Self>& actor, Instant when, typename Self::Event event, Frame&& frame) {
    static_assert(TakesFrames<Self>);
    add(when, {&actor, frame.detach(), StoredEvent::of(event)});
  }
  bool empty() const { return pending_ == 0; }
  uint64_t pending() const { return pending_; }
  /// When the next event is due; Instant::never() when there is none.
  Instant next() const { return next_; }
  uint64_t handled() const { return handled_; }

  /// Handles the next event. There must be one.
  void step() {
    const Due due = take();
    handled_++;
    due.actor->handle(due.event, due.frame, now_);
  }
  /// Moves the clock to `when`. No event may be due before.
  void advance_to(Instant when) {
    ensure(when <= next_, "time does not pass over an event");
    if (now_ < when) now_ = when;
  }

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  static constexpr unsigned kLevels = 8;
  static constexpr size_t kAhead = 6;  // an event's memory is prefetched so many events before its own turn
  /// What was scheduled, and for whom.
  struct Due {
    AnyActor* actor;
    void* frame;  // detached; nullptr when there is none
    StoredEvent event;
  };
  /// The same with its place in the queue, in 32 bytes, because a large network has tens of thousands of them.
  struct Node {
    Instant when;
    AnyActor* actor;
    void* frame;
    StoredEvent event;
    uint32_t next;

    Due due() const { return {actor, frame, event}; }
  };
  static_assert(sizeof(Node) == 32);
  struct Slot {
    uint32_t head = kNone;
    uint32_t tail = kNone;
  };
  struct Level {
    std::array<Slot, 256> slots;
    std::array<uint64_t, 4> used{};
  };

  void add(Instant when, const Due& due) {
    if (when < now_) when = now_;
    const uint32_t index = take_node();
    nodes_[index] = {when, due.actor, due.frame, due.event, kNone};
    insert(index);
    pending_++;
    if (when < next_) next_ = when;
  }
  /// The next event, which is not pending any more. There must be one.
  Due take() {
    if (ready_at_ == ready_.size()) take_slot();
    const Due due = ready_[ready_at_++];
    if (ready_at_ + kAhead < ready_.size()) prefetch(ready_[ready_at_ + kAhead]);
    if (ready_at_ == ready_.size()) {
      next_ = find_next();
      prefetch_slot();
    }
    pending_--;
    return due;
  }
  uint32_t take_node() {
    if (free_ == kNone) {
      nodes_.emplace_back();
      return static_cast<uint32_t>(nodes_.size() - 1);
    }
    const uint32_t index = free_;
    free_ = nodes_[index].next;
    return index;
  }
  void mark(unsigned level, uint64_t slot, bool used) {
    const uint64_t bit = uint64_t{1} << (slot & 63);
    if (used) {
      levels_[level].used[slot >> 6] |= bit;
    } else {
      levels_[level].used[slot >> 6] &= ~bit;
    }
  }
  static unsigned level_of(uint64_t when, uint64_t base) {
    return (63 - static_cast<unsigned>(std::countl_zero((when ^ base) | 1))) / 8;
  }
  void insert(uint32_t index) {
    const auto when = static_cast<uint64_t>(nodes_[index].when.ns);
    const unsigned level = level_of(when, base_);
    const uint64_t number = (when >> (8 * level)) & 0xFF;
    Slot& slot = levels_[level].slots[number];
    if (slot.head == kNone) {
      slot.head = index;
      mark(level, number, true);
    } else {
      nodes_[slot.tail].next = index;
    }
    slot.tail = index;
  }
  /// Makes `when`, the instant of the earliest event, the base, and returns the slot of exactly that instant.
  Slot& bring_down(uint64_t when) {
    const unsigned level = level_of(when, base_);
    base_ = when;
    if (level != 0) spread(level, (when >> (8 * level)) & 0xFF);
    return levels_[0].slots[when & 0xFF];
  }
  /// Prefetches what an event needs: a large network does not fit the cache, and its events come from all over it.
  static void prefetch(const Due& due) {
    __builtin_prefetch(due.actor);
    if (due.frame == nullptr) return;
    __builtin_prefetch(due.frame, 1);
    __builtin_prefetch(static_cast<const char*>(due.frame) + 64);
  }
  void take_slot();
  void prefetch_slot() const;
  void spread(unsigned level, uint64_t number);
  Instant find_next() const;

  std::array<Level, kLevels> levels_;
  std::vector<Node> nodes_;
  std::vector<Due> ready_;  // the events of the present instant, taken out of their slot
  size_t ready_at_ = 0;     // the next one of them
  uint32_t free_ = kNone;
  uint64_t pending_ = 0;
  Instant next_ = Instant::never();
  Instant now_;
  uint64_t base_;  // the instant of the last event handled; no pending event is earlier
  uint64_t handled_ = 0;
};

}  // namespace uroce::sim
