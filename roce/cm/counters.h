// What connection management counts: what it did, and every reason for which a datagram was dropped.
//
// X-macro: `X(name)` for each. `name` is the telemetry key, after a prefix.
#pragma once

#include <cstdint>

// Not formatted: clang-format 14 changes a list like this one anew each time that it runs.
// clang-format off
#define UROCE_CM_COUNTERS(X) \
  X(rx_mads) X(tx_mads) X(retries) X(timeouts) X(duplicates) X(asked_again) \
  X(requests) X(established) X(established_by_data) X(ended) X(ended_for_peer) \
  X(path_changes_refused) \
  /* what was answered with a refusal */ \
  X(refused_no_service) X(refused_stale) X(refused_malformed) X(refused_unknown_id) \
  /* received and dropped: why */ \
  X(drop_not_cm) X(drop_unknown_message) X(drop_bad_source) X(drop_no_way_back) X(drop_unknown_id) X(drop_wrong_peer) \
  X(drop_wrong_state) X(drop_bad_value) X(drop_requests_full) X(drop_listener_full) X(drop_backlog_full) \
  /* what had to be forgotten before its time, for others to have room */ \
  X(rests_cut_short)
// clang-format on

namespace uroce::cm {

struct CmCounters {
#define UROCE_CM_COUNTER_FIELD(name) uint64_t name = 0;
  UROCE_CM_COUNTERS(UROCE_CM_COUNTER_FIELD)
#undef UROCE_CM_COUNTER_FIELD
};

/// Calls `f(name, value)` for every counter, in the order above.
template <typename F>
void for_each_counter(const CmCounters& counters, F&& f) {
#define UROCE_CM_COUNTER_VISIT(name) f(#name, counters.name);
  UROCE_CM_COUNTERS(UROCE_CM_COUNTER_VISIT)
#undef UROCE_CM_COUNTER_VISIT
}

}  // namespace uroce::cm
