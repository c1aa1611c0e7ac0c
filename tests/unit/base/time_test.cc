#include "uroce/time.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

TEST(Time, UnitsAndArithmetic) {
  EXPECT_EQ(milliseconds(3), microseconds(3000));
  EXPECT_EQ(microseconds(2), nanoseconds(2000));
  EXPECT_EQ(microseconds(5) * 4, microseconds(20));
  const Instant t{1000};
  EXPECT_EQ(t + nanoseconds(500), (Instant{1500}));
  EXPECT_EQ((Instant{1500}) - t, nanoseconds(500));
  EXPECT_LT(t - (Instant{1500}), nanoseconds(0));
}

TEST(Time, NeverIsLaterThanEverything) {
  EXPECT_GT(Instant::never(), Instant{} + milliseconds(int64_t{1000} * 86400 * 365 * 100));
}

}  // namespace
}  // namespace uroce
