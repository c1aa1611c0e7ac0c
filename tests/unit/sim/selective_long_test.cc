// Selective repeat over a long fat path: gigabytes in flight take minutes to simulate.
#include <gtest/gtest.h>

#include "stream.h"

namespace uroce::sim {
namespace {

/// 10 Gb/s over 100 ms: 125 MB in flight.
TEST(LongGoodput, OverAnOceanWithOneLossInTenThousand) {
  Path path;
  path.delay = milliseconds(50);
  path.bits_per_second = 10'000'000'000;
  path.window_packets = 30'518;
  path.timeout = 17;
  path.reorder_packets = 4 * 30'518;
  EXPECT_GE(share(path, 1e-4, 1e-4, milliseconds(2'000), 1 << 20, 512), 0.95);
}

}  // namespace
}  // namespace uroce::sim
