// Something that acts at instants of virtual time.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace uroce::sim {

class Actor {
 public:
  virtual ~Actor() = default;
  /// An event that was scheduled for this actor is due. `what` is the number given to EventQueue::schedule.
  virtual void on_event(uint64_t what, Instant now) = 0;
};

}  // namespace uroce::sim
