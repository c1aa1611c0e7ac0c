// Connection management without memory: ids that move or end, channels that are closed, requests that meet it half way.
#pragma once

#include "failing_memory.h"
#include "sweep.h"

namespace verbs_test {

void sweep_cm(Sweep& sweep, FailingMemory& memory);

}  // namespace verbs_test
