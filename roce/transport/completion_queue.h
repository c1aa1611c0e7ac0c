// Completion queue: a ring of completions, sized once.
#pragma once

#include <cstdint>
#include <span>

#include "base/ring.h"
#include "transport/work_queue_slots.h"
#include "transport/work_request.h"

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
    return count;
  }
  /// Takes up to out.size() completions, oldest first; returns how many.
  uint32_t poll(std::span<Completion> out);

  /// The next completion that is added (solicited_only: the next solicited one, or any in error) raises on_cq_event,
  /// once.
  void arm(bool solicited_only);

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

 private:
  struct Entry {
    Completion completion;
    uint32_t slots = 0;  // that it frees in its work queue
    WorkQueueSlots* queue = nullptr;
  };

  Ring<Entry> ring_;
  Observer& observer_;
  void* user_;
  enum class Armed : uint8_t { kNo, kSolicited, kAny } armed_ = Armed::kNo;
  bool overrun_ = false;
};

}  // namespace uroce
