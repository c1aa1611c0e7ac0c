// The way of a completion to the driver: into its CQ; when that is armed, an event into its EQ; and when that is armed,
// an interrupt.
#pragma once

#include <cstddef>

#include "pmd/card/context.h"
#include "pmd/card/queue_manager.h"
#include "pmd/hw/formats.h"

namespace mqnic::card {

/// A Completion built as words: one stored field by field could be loaded as a whole only after those stores.
inline QueueEntry completion_entry(uint16_t queue, uint16_t index, uint16_t bytes, PtpClock::Stamp stamp) {
  static_assert(offsetof(Completion, index) == 2 && offsetof(Completion, bytes) == 4 &&
                offsetof(Completion, timestamp_ns) == 8 && offsetof(Completion, timestamp_s) == 12);
  return {queue | uint64_t{index} << 16 | uint64_t{bytes} << 32, stamp.ns | uint64_t{stamp.seconds} << 32, 0, 0};
}
inline void set_rx_checksum(QueueEntry& completion, uint16_t sum) {
  static_assert(offsetof(Completion, rx_checksum) == 14);
  completion[1] |= uint64_t{sum} << 48;
}
inline void set_hash_and_port(QueueEntry& completion, uint32_t hash, uint8_t hash_type, uint8_t port) {
  static_assert(offsetof(Completion, rx_hash) == 16 && offsetof(Completion, hash_type) == 20 &&
                offsetof(Completion, port) == 21);
  completion[2] = hash | uint64_t{hash_type} << 32 | uint64_t{port} << 40;
}

class CompletionPath {
 public:
  CompletionPath(Context& context, CompletionManager& completions, CompletionManager& events)
      : context_(&context), completions_(&completions), events_(&events) {}

  /// A completion for a CQ that is full or off is lost without a trace, except in the report.
  void complete(uint16_t completion_queue, QueueEntry& completion) {
    const CompletionManager::Push push = completions_->push(context_->dma, completion_queue, completion);
    if (push.result == CompletionManager::Result::kFull || push.result == CompletionManager::Result::kOff) {
      ++context_->report.completions_lost_cq_full;
    }
    if (push.event) event(push.target, completion_queue);
  }
  /// An event that a register write to a CQ caused.
  void event(uint16_t event_queue, uint16_t completion_queue);

 private:
  Context* context_;
  CompletionManager* completions_;
  CompletionManager* events_;
};

}  // namespace mqnic::card
