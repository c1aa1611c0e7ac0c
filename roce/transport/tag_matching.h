// What a shared receive queue that matches tags has in addition to its receives: the tagged receives, the completion
// queue for all its events, and the two counts that keep the program and the queue in step.
//
// A message whose tag no receive has is unexpected: it goes to an ordinary receive, and the program looks for a receive
// of its own for it. Meanwhile a receive that the program adds here could take a later message of the same sender. So
// the queue counts unexpected messages, the program reports how many it has handled, and while the two differ nothing
// can be added: the operation ends with WcStatus::kTmErr and Cause::kTagOutOfStep.
#pragma once

#include <cstdint>

#include "transport/tag_list.h"
#include "transport/work_queue_slots.h"
#include "uroce/time.h"
#include "uroce/work_request.h"

namespace uroce {

class CompletionQueue;

/// An operation that a program asks of the list.
struct TagOp {
  enum class Kind : uint8_t { kAdd, kRemove, kSync };  // ibv_ops_wr_opcode

  uint64_t wr_id = 0;
  Kind kind = Kind::kSync;
  bool signaled = false;    // it gets a completion; one that fails always does
  bool sync = false;        // `unexpected` counts, whatever the kind
  uint32_t unexpected = 0;  // how many unexpected messages the program has dealt with
  uint32_t handle = 0;      // kRemove: of which receive; kAdd: becomes it
  TaggedReceive receive;    // kAdd
};

class TagMatching {
 public:
  static constexpr uint32_t kOpsMax = 1024;
  /// The smallest path MTU: a rendezvous request is always a single packet.
  static constexpr uint32_t kRendezvousHeadersMax = 256;

  /// For at most `max_tags` receives (TagList::kCapacityMax), and `max_ops` operations whose completions have not been
  /// polled. `cq` outlives it.
  TagMatching(CompletionQueue& cq, uint32_t max_tags, uint32_t max_ops)
      : cq_(cq), list_(max_tags), tag_slots_(max_tags), op_slots_(max_ops) {}

  CompletionQueue& cq() const { return cq_; }

  /// Carries the operation out, at once. Later failures are reported by a completion.
  PostResult post(TagOp& op, Instant now);

  bool has(uint64_t tag) const { return list_.has(tag); }
  /// See TagList::take. The receive keeps its slot until it ends.
  const TaggedReceive* take(uint64_t tag) { return list_.take(tag); }
  /// A message came whose tag no receive has.
  void on_unexpected() { arrived_++; }
  /// Such a message did not complete, and the program will not learn of it.
  void on_unexpected_lost() { arrived_--; }
  uint32_t unexpected() const { return arrived_; }
  /// As on cards, only the low 16 bits of the program's count are looked at.
  bool in_step() const { return static_cast<uint16_t>(arrived_ - handled_) == 0; }

  /// A slot is taken from the time when a receive is added until its last completion was polled.
  WorkQueueSlots& tag_slots() { return tag_slots_; }
  WorkQueueSlots& op_slots() { return op_slots_; }

 private:
  Cause carry_out(TagOp& op);

  CompletionQueue& cq_;
  TagList list_;
  WorkQueueSlots tag_slots_;
  WorkQueueSlots op_slots_;
  uint32_t arrived_ = 0;  // unexpected messages
  uint32_t handled_ = 0;  // how many of them the program says it has handled
};

}  // namespace uroce
