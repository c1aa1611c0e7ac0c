// Completion queue: a ring of completions, sized once.
//
// A program that sleeps is woken by an event, and each arming raises at most one. An event means "look into the queue",
// so it *announces* the completion that raised it and, when the program takes the event (on_event_taken), every other
// completion that is in the queue then. Arming makes sure that no completion is overlooked:
//
//   - If there is a completion that no event has announced and that was not polled, the event is raised at once. That
//     completion came while the queue was not armed, and a program that polls first and arms afterwards (UCX) has no
//     other way to learn of it.
//   - Completions that were announced raise nothing. The program has been told; it may arm before it polls them
//     (ibv_rc_pingpong), and an event for each of those armings would find an empty queue.
//   - Otherwise the next completion that is added raises the event.
//
// When armed for solicited completions, only those of solicited messages and those in error count.
//
// Moderation (`moderate`) holds the event of an armed queue back until several completions are there, or until the
// first of them is old enough. A program that polls all of them before that gets no event.
//
// Conversely, an event should find the completion that it tells of: a batch (ibv_next_poll) ends before completions
// whose event the program has yet to take, because ibv_rc_pingpong -t polls once for each event and gives up when it
// finds nothing.
#pragma once

#include <cstdint>
#include <span>

#include "base/ring.h"
#include "transport/work_queue_slots.h"
#include "uroce/time.h"
#include "uroce/work_request.h"

namespace uroce {

class Observer;

class CompletionQueue {
 public:
  /// `user` is whatever the owner wants to find again in Observer calls (the shim keeps its ibv_cq there).
  CompletionQueue(uint32_t capacity, Observer& observer, void* user = nullptr);

  void* user() const { return user_; }
  uint32_t capacity() const { return ring_.capacity(); }
  uint32_t size() const { return ring_.size(); }
  bool overrun() const { return overrun_; }

  /// Takes up to `max` completions, oldest first, and calls `f(completion)` for each; returns how many. The slots that
  /// a completion frees in its work queue are free when `f` is called.
  template <typename F>
  uint32_t drain(uint32_t max, F&& f) {
    uint32_t count = 0;
    for (; count < max && !ring_.empty(); count++) {
      const Entry entry = ring_.front();  // a copy: `f` may reset a QP, which takes its completions out of the ring
      ring_.pop();
      entry.queue->give_back(entry.slots);
      f(entry.completion);
    }
    if (unheard_ != 0 && !still_here(unheard_)) unheard_ = 0;  // the program polled it without taking its event
    if (held_back_ != 0 && ring_.empty()) forget_held_back();
    return count;
  }
  /// Takes up to out.size() completions, oldest first; returns how many.
  uint32_t poll(std::span<Completion> out);

  enum class Wake : uint8_t { kAny, kSolicited };
  /// Raises on_cq_event once: now, when there is a completion that was not announced, else with the next one.
  void arm(Wake wake);
  /// From now on an event waits for `count` completions, or until `period` has passed since the first of them; 0 is no
  /// condition. A count of 1, or two zeros, ends moderation.
  void moderate(uint32_t count, Duration period);
  /// When an event that is held back is to be raised with `raise_due`.
  Instant next_event() const { return due_; }
  void raise_due(Instant now) {
    if (due_ <= now) raise();
  }
  /// The program took an event of this queue: the completions that are here now are announced.
  void on_event_taken() {
    announced_ = added_;
    unheard_ = 0;
  }
  /// True when the event of the next completion has not yet been taken by the program.
  bool next_is_unheard() const { return unheard_ != 0 && !ring_.empty() && added_ - ring_.size() + 1 >= unheard_; }

  /// False when the queue is full: the completion is lost, the queue is in error for good and says so once
  /// (Observer::on_cq_error). `queue`: the work queue whose slots are free when the completion has been polled; it must
  /// exist until then, or until `remove`.
  bool push(const Completion& completion, bool solicited, WorkQueueSlots& queue);

  /// Takes out the completions of a QP that is reset or destroyed, and frees their slots. The others keep their order,
  /// and those of tag matching stay: a program that counts unexpected messages has to see all of them.
  void remove(uint32_t qpn);
  /// The same for the receives of a shared receive queue that is destroyed.
  void remove(const WorkQueueSlots& queue);

  /// Makes room for more; keeps what is queued. False when `capacity` is less than what is queued.
  bool resize(uint32_t capacity);

  /// Whether the queue has a completion of this QP.
  bool has_of(uint32_t qpn) const;

  /// QPs that use it; the engine refuses to destroy a queue in use.
  uint32_t users = 0;
  uint32_t place = 0;      // its index in the engine's list
  uint32_t listed_as = 0;  // names it among the queues of its engine, for as long as it lives

 private:
  struct Entry {
    Completion completion;
    uint32_t slots = 0;  // slots that it frees in its work queue
    WorkQueueSlots* queue = nullptr;
  };

  /// Completions are numbered from 1 in the order in which they are added.
  bool still_here(uint64_t number) const { return number + ring_.size() > added_; }
  template <typename Belongs>
  void remove_if(Belongs belongs);
  void raise();
  bool moderated() const { return moderation_count_ != 1 && (moderation_count_ != 0 || moderation_period_.ns != 0); }
  /// `count` completions came for which an armed queue raises an event; the first of them at that time.
  void on_arrival(uint32_t count, int64_t first_ns);
  void forget_held_back() {
    held_back_ = 0;
    due_ = Instant::never();
  }

  Ring<Entry> ring_;
  Observer& observer_;
  void* user_;
  enum class Armed : uint8_t { kNo, kSolicited, kAny } armed_ = Armed::kNo;
  uint64_t added_ = 0;             // the number of the newest completion
  uint64_t newest_solicited_ = 0;  // the newest that counts for Wake::kSolicited
  uint64_t announced_ = 0;         // the completions up to this number were announced
  uint64_t unheard_ = 0;           // the first one whose event the program has not taken; 0: none
  bool overrun_ = false;
  uint32_t moderation_count_ = 0;
  Duration moderation_period_{0};
  uint32_t held_back_ = 0;          // completions that wait for the event of an armed queue
  Instant due_ = Instant::never();  // when it comes at the latest
};

}  // namespace uroce
