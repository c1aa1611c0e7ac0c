// The way of a completion to the driver: into its CQ; when that is armed, an event into its EQ; and when that is armed,
// an interrupt.
#pragma once

#include "pmd/card/context.h"
#include "pmd/card/queue_manager.h"
#include "pmd/hw/formats.h"

namespace mqnic::card {

class CompletionPath {
 public:
  CompletionPath(Context& context, CompletionManager& completions, CompletionManager& events)
      : context_(&context), completions_(&completions), events_(&events) {}

  /// A completion for a CQ that is full or off is lost without a trace, except in the report.
  void complete(uint16_t completion_queue, const Completion& completion);
  /// An event that a register write to a CQ caused.
  void event(uint16_t event_queue, uint16_t completion_queue);

 private:
  Context* context_;
  CompletionManager* completions_;
  CompletionManager* events_;
};

}  // namespace mqnic::card
