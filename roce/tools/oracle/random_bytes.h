// Memory full of bytes that are drawn, one of each number: whatever is copied from a wrong place shows.
#pragma once

#include "base/random.h"
#include "sim/testbed.h"

namespace uroce::oracle {

void fill_with_random_bytes(const sim::Buffer& buffer, SeededRandom& random);

}  // namespace uroce::oracle
