#include "cm/address_resolution.h"

#include <algorithm>
#include <cerrno>

namespace uroce::cm {

namespace {

// A neighbour on the same wire answers within a millisecond; one that does not is asked at growing intervals.
constexpr Duration kFirstInterval = milliseconds(1);
constexpr Duration kLongestInterval = milliseconds(100);

}  // namespace

void AddressResolution::start(Id& id, Duration timeout, Instant now) {
  IdState& state = id.state();
  state.phase = IdState::Phase::kAddrQuery;
  state.resolution = {
      .deadline = now + timeout, .next_try = Instant::never(), .serial = started_++, .interval = kFirstInterval};
  ask(id, now);
}

void AddressResolution::cancel(Id& id) {
  Resolution& resolution = id.state().resolution;
  if (resolution.next_try != Instant::never()) waiting_.erase({resolution.next_try, resolution.serial});
  resolution.next_try = Instant::never();
}

void AddressResolution::ask(Id& id, Instant now) {
  IdState& state = id.state();
  if (state.way->av.dgid.is_multicast() || services_.resolve(*state.way, now) == Services::Neighbour::kKnown) {
    state.phase = IdState::Phase::kAddrResolved;
    return tell(id, EventType::kAddrResolved, 0);
  }
  if (now >= state.resolution.deadline) {
    state.phase = IdState::Phase::kBound;
    return tell(id, EventType::kAddrError, -ETIMEDOUT);
  }
  state.resolution.next_try = std::min(now + state.resolution.interval, state.resolution.deadline);
  state.resolution.interval = std::min(state.resolution.interval * 2, kLongestInterval);
  waiting_.emplace(std::pair(state.resolution.next_try, state.resolution.serial), &id);
}

void AddressResolution::tell(Id& id, EventType type, int status) {
  Event event;
  event.type = type;
  event.id = &id;
  event.status = status;
  sink_.on_cm_event(event);
}

void AddressResolution::run(Instant now) {
  while (!waiting_.empty() && next_timeout() <= now) {
    Id* id = waiting_.begin()->second;
    cancel(*id);
    ask(*id, now);
  }
}

}  // namespace uroce::cm
