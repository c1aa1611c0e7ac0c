// Waiting for a card: one in another process, or of hardware, goes on by itself; a model in this process has to be run.
#pragma once

#include <rte_cycles.h>

#include <cstdint>

#include "pmd/ethdev/port.h"

namespace mqnic::ethdev {

inline constexpr unsigned kStubbornMs = 100;  // what has not happened by then is given up
inline constexpr unsigned kPollUs = 100;

/// Lets the card work until `done` says so, or for `milliseconds`. False when it did not, and when the card is gone.
template <typename Done>
bool wait_for_card(Port& port, unsigned milliseconds, Done done) {
  const uint64_t deadline = rte_get_timer_cycles() + rte_get_timer_hz() / 1000 * milliseconds;
  for (;;) {
    // The time first: who is preempted behind it looks once more.
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
