// Completion queue: a ring of completions, sized once.
//
// A program that sleeps is woken by an event, and each arming raises at most one. What an event tells is "look into the
// queue", so it *announces* every completion that is there when the program takes it (on_event_taken), and the one that
// raised it, taken or not. Arming promises that no completion is slept over:
//
//   - one that no event has announced, and that was not polled, raises the event at once. It came while the queue was
//   not
//     armed, and a program that polls first and arms then (UCX) has no other way to hear of it;
//   - announced ones raise nothing. The program was told; it may arm before it polls them (ibv_rc_pingpong), and an
//   event
//     for each of those armings would find an empty queue;
//   - otherwise the next one that is added raises it.
//
// Armed for solicited ones, only completions of solicited messages and errors count.
//
// The other way round, an event should find what it tells of: a batch (ibv_next_poll) does not run on into completions
// whose event the program has yet to take. ibv_rc_pingpong -t polls once for each event and gives up when it finds
// nothing.
#pragma once

#include <cstdint>
#include <span>

#include "base/ring.h"
#include "transport/work_queue_slots.h"
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
    if (unheard_ != 0 && !still_here(unheard_)) unheard_ = 0;  // found without its event
    return count;
  }
  /// Takes up to out.size() completions, oldest first; returns how many.
  uint32_t poll(std::span<Completion> out);

  enum class Wake : uint8_t { kAny, kSolicited };
  /// Raises on_cq_event once: now, when there is a completion that was not announced, else with the next one.
  void arm(Wake wake);
  /// The program took an event of this queue: what is here now is announced.
  void on_event_taken() {
    announced_ = added_;
    unheard_ = 0;
  }
  /// The next completion has an event that waits for the program.
  bool next_is_unheard() const { return unheard_ != 0 && !ring_.empty() && added_ - ring_.size() + 1 >= unheard_; }

  /// False when the queue is full: the completion is lost, the queue is in error for good and says so once
  /// (Observer::on_cq_error). `queue`: the work queue whose slots are free when the completion has been polled; it must
  /// exist until then, or until `remove`.
  bool push(const Completion& completion, bool solicited, WorkQueueSlots& queue);

  /// Takes out what is there of a QP that forgets its work or goes away, and frees the slots. The others keep their
  /// order.
  void remove(uint32_t qpn);

  /// Makes room for more; keeps what is queued. False when `capacity` is less than what is queued.
  bool resize(uint32_t capacity);

  /// QPs that use it; the engine refuses to destroy a queue in use.
  uint32_t users = 0;
  uint32_t place = 0;  // the engine's

 private:
  struct Entry {
    Completion completion;
    uint32_t slots = 0;  // that it frees in its work queue
    WorkQueueSlots* queue = nullptr;
  };

  /// Completions are numbered from 1 in the order in which they are added.
  bool still_here(uint64_t number) const { return number + ring_.size() > added_; }
  void raise();

  Ring<Entry> ring_;
  Observer& observer_;
  void* user_;
  enum class Armed : uint8_t { kNo, kSolicited, kAny } armed_ = Armed::kNo;
  uint64_t added_ = 0;             // the newest one's number
  uint64_t newest_solicited_ = 0;  // of those that count for Wake::kSolicited
  uint64_t announced_ = 0;         // this one, and all before it
  uint64_t unheard_ = 0;           // the first one that only an event tells of that nobody has taken; 0: none
  bool overrun_ = false;
};

}  // namespace uroce
