// The names of what `Impairments` counts, for tables and telemetry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fabric/impairments.h"

namespace uroce::fabric {

/// Calls `f(name, value)` for every counter, each name behind `prefix`; for none when no fault is configured.
template <typename F>
void for_each_fault(const Impairments& faults, const std::string& prefix, F&& f) {
  if (!faults.active()) return;
  const ImpairmentCounters& c = faults.counters();
  f(prefix + "frames", c.frames);
  f(prefix + "lost", c.lost);
  f(prefix + "lost_in_burst", c.lost_in_burst);
  f(prefix + "lost_while_down", c.lost_while_down);
  f(prefix + "corrupted", c.corrupted);
  f(prefix + "duplicated", c.duplicated);
  f(prefix + "reordered", c.reordered);
  f(prefix + "dropped_by_rule", c.dropped_by_rule);
  f(prefix + "delayed_by_rule", c.delayed_by_rule);
  f(prefix + "duplicated_by_rule", c.duplicated_by_rule);
  f(prefix + "corrupted_by_rule", c.corrupted_by_rule);
  f(prefix + "marked_by_rule", c.marked_by_rule);
  f(prefix + "pauses_injected", c.pauses_injected);
  f(prefix + "no_frame_memory", c.no_frame_memory);
  for (size_t i = 0; i < faults.config().rules.size(); i++) {
    const std::string rule = prefix + "rule" + std::to_string(i) + "_";
    f(rule + "fits", faults.rule_fits(i));
    f(rule + "hits", faults.rule_hits(i));
  }
}

}  // namespace uroce::fabric
