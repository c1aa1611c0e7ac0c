#include "dpdk/log.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

TEST(Log, ALineIsOneWhoeversWordsAreInIt) {
  testing::internal::CaptureStderr();
  log_message(LogLevel::kWarning, "program %s", "x\x1b[2J\ry\x7f");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "uroce: program x?[2J?y?\n");
}

}  // namespace
}  // namespace uroce
