// Address resolution: asks until a neighbour answers for the destination, or time is up.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "cm/id_state.h"
#include "cm/services.h"

namespace uroce::cm {

class AddressResolution {
 public:
  AddressResolution(Services& services, EventSink& sink) : services_(services), sink_(sink) {}

  /// `id` must have its way. ADDR_RESOLVED may be reported before this returns.
  void start(Id& id, Duration timeout, Instant now);
  void cancel(Id& id);
  void run(Instant now);
  Instant next_timeout() const { return waiting_.empty() ? Instant::never() : waiting_.begin()->first.first; }

 private:
  void ask(Id& id, Instant now);
  void tell(Id& id, EventType type, int status);

  Services& services_;
  EventSink& sink_;
  uint64_t started_ = 0;
  std::map<std::pair<Instant, uint64_t>, Id*> waiting_;  // by time and `Resolution::serial`, not by an Id's address
};

}  // namespace uroce::cm
