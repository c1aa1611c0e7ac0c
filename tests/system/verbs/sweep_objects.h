// A maker for every kind of object, swept one after the other.
#pragma once

#include <infiniband/verbs.h>

#include "sweep.h"

namespace verbs_test {

/// Objects of an open device.
void sweep_objects(Sweep& sweep, ibv_context* context, ibv_pd* pd);

}  // namespace verbs_test
