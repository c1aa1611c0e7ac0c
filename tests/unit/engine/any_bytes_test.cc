// Any bytes at all on the port: a counted drop, or handled; never a crash. See any_bytes.h.
#include <gtest/gtest.h>

#include "any_bytes.h"

namespace uroce::test {
namespace {

class AnyBytesTest : public testing::TestWithParam<QpType> {};
INSTANTIATE_TEST_SUITE_P(Types, AnyBytesTest, testing::Values(QpType::kRc, QpType::kUc, QpType::kUd));

TEST_P(AnyBytesTest, DroppedOrHandled) {
  for (uint64_t n = 0; n < 6; n++) {
    const AnyBytesReport report = feed_any_bytes(GetParam(), seed_or(1) + n, UROCE_FRAMES);
    ASSERT_EQ(report.failure, "");
    // The test is worth something only if many frames get through, and QPs fail and recover.
    EXPECT_GT(report.dropped, report.frames / 10);
    EXPECT_GT(report.handled, report.frames / 40);
    EXPECT_GT(report.sent, 100u);
    EXPECT_GT(report.recoveries, 10u);
  }
}

}  // namespace
}  // namespace uroce::test
