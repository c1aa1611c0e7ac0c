// What the switch has counted, as a table for users and as names and numbers for tools.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "fabric/fault_counters.h"
#include "live_switch.h"

namespace uroce::netswitch {

/// Calls `f` for every counter of a port with its name, in a fixed order. Names of losses begin with "drop_", those of
/// faults with "in_" or "out_".
template <typename F>
void for_each_counter(const SwitchLink& link, const fabric::Switch& fabric, F&& f) {
  const fabric::SwitchPortCounters& c = fabric.counters(link.config().id);
  f("rx_frames", c.rx_frames);
  f("rx_bytes", c.rx_bytes);
  f("tx_frames", c.tx_frames);
  f("tx_bytes", c.tx_bytes);
  f("flooded", c.flooded);
  f("flood_copies", c.flood_copies);
  f("ecn_marked", c.ecn_marked);
  f("ecn_not_capable", c.ecn_not_capable);
  f("pause_frames_sent", c.pause_frames_sent);
  f("pause_frames_received", c.pause_frames_received);
  f("pause_frames_unsent", c.pause_frames_unsent);
  for (unsigned p = 0; p < kPriorities; p++) {
    const std::string prefix = "prio" + std::to_string(p) + "_";
    f(prefix + "tx_frames", c.tx_priority_frames[p]);
    f(prefix + "tx_bytes", c.tx_priority_bytes[p]);
    f(prefix + "xoff_sent", c.xoff_sent[p]);
    f(prefix + "xon_sent", c.xon_sent[p]);
    f(prefix + "pauses_received", c.pauses_received[p]);
    f(prefix + "resumes_received", c.resumes_received[p]);
    f(prefix + "paused_ns", c.paused_ns[p]);
    f(prefix + "max_queue_bytes", c.max_queue_bytes[p]);
    f(prefix + "queue_bytes", fabric.queue_bytes(link.config().id, p));
  }
  for (unsigned i = 0; i < fabric::kDropCount; i++) {
    std::string name = std::string("drop_") + fabric::drop_name(static_cast<fabric::Drop>(i));
    std::replace(name.begin(), name.end(), '-', '_');  // telemetry requires it
    f(name, c.drops[i]);
  }
  const DpdkPortCounters& port = link.port().counters();
  f("drop_rx_in_pieces", link.counters().rx_too_long);
  f("drop_tx_too_long", link.counters().tx_too_long);
  f("drop_in_delay_full", link.counters().in_delay_full);
  f("drop_out_delay_full", link.counters().out_delay_full);
  f("drop_no_link", port.tx_dropped_no_link);
  f("drop_stuck", port.tx_dropped_stuck);
  f("link_ups", port.link_ups);
  link.port().for_each_own_counter([&f](const char* name, uint64_t value) { f(name, value); });
  for_each_fault(link.in_faults(), "in_", f);
  for_each_fault(link.out_faults(), "out_", f);
}

/// Prints a line for each port, and one for each loss and fault that has happened.
void print_table(FILE* out, const LiveSwitch& live);

}  // namespace uroce::netswitch
