#include "pmd/card/completion_path.h"

#include <cstring>

namespace mqnic::card {

void CompletionPath::event(uint16_t event_queue, uint16_t completion_queue) {
  Event event{};
  event.type = kEventCompletion;
  event.source = completion_queue;
  QueueEntry entry;
  static_assert(sizeof(entry) == sizeof(event));
  std::memcpy(entry.data(), &event, sizeof(entry));
  const CompletionManager::Push push = events_->push(context_->dma, event_queue, entry);
  if (push.result == CompletionManager::Result::kFull || push.result == CompletionManager::Result::kOff) {
    ++context_->report.events_lost_eq_full;
  }
  if (push.event) context_->interrupts.request(push.target, context_->now_ns);
}

}  // namespace mqnic::card
