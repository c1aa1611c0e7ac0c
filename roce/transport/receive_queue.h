// Receive work requests: a QP's own receive queue, and the shared one.
#pragma once

#include <cstdint>
#include <memory>

#include "base/ring.h"
#include "base/untouched_array.h"
#include "transport/work_queue_slots.h"
#include "uroce/work_request.h"

namespace uroce {

class CompletionQueue;
class Observer;
class TagMatching;

/// One posted receive. Its elements live in the queue's own storage.
struct RecvWqe {
  uint64_t wr_id = 0;
  const Sge* sges = nullptr;
  uint32_t num_sge = 0;
};

class ReceiveQueue {
 public:
  /// How much memory the queue takes.
  static size_t bytes_for(uint32_t max_wr, uint32_t max_sge);

  /// `memory`: `bytes_for` bytes of the caller's, which outlive the queue; nullptr: the queue allocates them.
  ReceiveQueue(uint32_t max_wr, uint32_t max_sge, void* memory = nullptr);

  PostResult post(const RecvWr& wr);
  bool empty() const { return ring_.empty(); }
  uint32_t size() const { return ring_.size(); }
  uint32_t max_wr() const { return ring_.capacity(); }
  uint32_t max_sge() const { return max_sge_; }
  /// The oldest receive. Its elements stay where they are until the completion of that receive has been polled, or the
  /// queue has another size.
  RecvWqe front() {
    const Posted& posted = ring_.front();
    return {posted.wr_id, sges_of(ring_.head()), posted.num_sge};
  }
  void pop() { ring_.pop(); }
  /// Forgets what is queued. No completion of these receives may be left in a completion queue.
  void clear() {
    ring_.clear();
    slots_.reset();
  }
  WorkQueueSlots& slots() { return slots_; }
  const WorkQueueSlots& slots() const { return slots_; }
  /// Keeps what is queued. False when more than `max_wr` slots are taken. `memory` as above. The elements of a receive
  /// that was popped are gone, so only shared queues are resized: who takes their receives copies the elements
  /// (receive_slot.h), while a queue pair fills those of its own queue from where they are.
  bool resize(uint32_t max_wr, void* memory = nullptr);

 private:
  struct Posted {
    uint64_t wr_id;
    uint32_t num_sge;
  };
  Sge* sges_of(uint32_t position) { return &sges_[size_t{ring_.slot(position)} * max_sge_]; }

  UntouchedBlock memory_;  // of the ring and its elements
  Ring<Posted> ring_;
  WorkQueueSlots slots_;
  uint32_t max_sge_;
  UntouchedArray<Sge> sges_;  // max_sge_ for each slot of the ring
};

/// The attributes of an XRC shared receive queue.
struct XrcAttachment {
  XrcdId domain = 0;              // 0: not an XRC queue
  CompletionQueue* cq = nullptr;  // of its receives
  uint32_t number = 0;            // number by which peers name it
};

class SharedReceiveQueue {
 public:
  SharedReceiveQueue(PdId pd, uint32_t max_wr, uint32_t max_sge, Observer& observer, void* user,
                     void* memory = nullptr);
  ~SharedReceiveQueue();

  void* user() const { return user_; }
  PdId pd() const { return pd_; }
  uint32_t max_wr() const { return queue_.max_wr(); }
  uint32_t max_sge() const { return queue_.max_sge(); }
  uint32_t limit() const { return limit_; }
  PostResult post(const RecvWr& wr) { return queue_.post(wr); }
  /// Raises on_srq_limit once, when fewer than `limit` receives are left. 0: off.
  void set_limit(uint32_t limit) { limit_ = limit; }
  /// As ReceiveQueue::resize. Beyond the limit, the event is not raised before a receive is taken.
  bool resize(uint32_t max_wr, void* memory = nullptr) { return queue_.resize(max_wr, memory); }
  bool empty() const { return queue_.empty(); }
  RecvWqe front() { return queue_.front(); }
  void pop();
  WorkQueueSlots& slots() { return queue_.slots(); }
  const XrcAttachment& xrc() const { return xrc_; }
  void set_xrc(const XrcAttachment& xrc) { xrc_ = xrc; }
  TagMatching* tags() const { return tags_.get(); }  // nullptr: it matches no tags
  void set_tags(std::unique_ptr<TagMatching> tags);

  uint32_t users = 0;
  uint32_t place = 0;      // its index in the engine's list
  uint32_t listed_as = 0;  // names it among the shared queues of its engine, for as long as it lives

 private:
  ReceiveQueue queue_;
  PdId pd_;
  Observer& observer_;
  void* user_;
  uint32_t limit_ = 0;
  XrcAttachment xrc_;
  std::unique_ptr<TagMatching> tags_;
};

}  // namespace uroce
