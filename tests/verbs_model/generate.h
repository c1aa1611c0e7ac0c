// Programs drawn from a seed.
#pragma once

#include <cstdint>

#include "verbs_model/program.h"

namespace uroce::model {

/// What is left out, for machines that cannot do it.
struct Limits {
  bool faults = true;       // of the wires
  bool overruns = true;     // completion queues that are too small
  bool few_retries = true;  // than seven; in real time, a peer may just wait for a processor
  bool old_windows = true;  // type 1: binding them is a call that checks some things itself
  uint32_t port_mtu = 4096;
};

Program generate(uint64_t seed, const Limits& limits = {});

}  // namespace uroce::model
