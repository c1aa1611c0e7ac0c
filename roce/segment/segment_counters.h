// What a member of a segment counts.
#pragma once

#include <cstdint>

namespace uroce::segment {

struct SegmentCounters {
  uint64_t tx_dropped_nobody = 0;  // for a queue pair that no program has
  uint64_t tx_dropped_full = 0;    // more than the receiver's ring and our backlog take
  uint64_t tx_dropped_stuck = 0;   // the receiver has taken nothing for a long time
  uint64_t tx_dropped_no_way = 0;  // for no queue pair, and wanted by no member of the segment
  uint64_t rx_nonsense = 0;        // slots that no correct sender writes
  uint64_t contacts = 0;           // peers with which there was contact
  uint64_t peers_lost = 0;         // of these, gone
  uint64_t wakes_sent = 0;
};

template <typename F>
void for_each_counter(const SegmentCounters& counters, F&& f) {
  f("tx_dropped_nobody", counters.tx_dropped_nobody);
  f("tx_dropped_full", counters.tx_dropped_full);
  f("tx_dropped_stuck", counters.tx_dropped_stuck);
  f("tx_dropped_no_way", counters.tx_dropped_no_way);
  f("rx_nonsense", counters.rx_nonsense);
  f("contacts", counters.contacts);
  f("peers_lost", counters.peers_lost);
  f("wakes_sent", counters.wakes_sent);
}

}  // namespace uroce::segment
