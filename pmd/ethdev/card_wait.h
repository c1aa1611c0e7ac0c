// Waiting for a card: one in another process, or in hardware, works by itself; a model in this process has to be run.
#pragma once

#include <rte_cycles.h>

#include <cstdint>

#include "pmd/ethdev/port.h"

namespace mqnic::ethdev {

inline constexpr unsigned kStubbornMs = 100;  // how long to wait for what may never happen
inline constexpr unsigned kPollUs = 100;

/// Lets the card work until `done()` is true, for up to `milliseconds`. False when time is up, or the card is gone.
template <typename Done>
bool wait_for_card(Port& port, unsigned milliseconds, Done done) {
  const uint64_t deadline = rte_get_timer_cycles() + rte_get_timer_hz() / 1000 * milliseconds;
  for (;;) {
    // The clock is read first, so that a thread that is preempted after it asks `done` once more.
    const bool late = rte_get_timer_cycles() > deadline;
    if (done()) return true;
    if (late || port.card->is_removed()) return false;
    if (port.bus().needs_run()) {
      port.bus().run();
    } else {
      rte_delay_us_sleep(kPollUs);
    }
  }
}

}  // namespace mqnic::ethdev
