#include "oracle/retry_wait.h"

#include <algorithm>

#include "base/check.h"
#include "transport/timing.h"

namespace uroce::oracle {

namespace {

/// By all QPs of the host.
uint64_t naks_received(const sim::Side& side) {
  const Counters& counters = side.engine().counters();
  return counters.packet_seq_err + counters.implied_nak_seq_err;
}

}  // namespace

void RetryWait::begin(const sim::Side& side, const std::vector<Leap>& leaps) {
  began_at_ = side.host->now();
  leaps_before_ = leaps.size();
  naks_before_ = naks_received(side);
}

bool RetryWait::long_enough(const sim::Side& side, const std::vector<Leap>& leaps) const {
  ensure(leaps_before_ <= leaps.size(), "a clock that has leapt has leapt");
  ensure(side.host->now() >= began_at_, "a host's clock never goes back");
  const QpAttributes attributes = side.qp->attributes();
  const Duration once = ack_timeout(attributes.timeout);
  Duration waited = side.host->now() - began_at_;
  for (size_t i = leaps_before_; i < leaps.size(); i++) {
    if (leaps[i].by > once) waited.ns -= leaps[i].by.ns - once.ns;
  }
  const uint64_t tries = attributes.retry_cnt + 1u;
  const uint64_t asked_for = std::min(naks_received(side) - naks_before_, tries - 1);
  return waited >= once * static_cast<int64_t>(tries - asked_for);
}

}  // namespace uroce::oracle
