// What uroced's options say of the memory that a program may set aside.
#include "uroced/options.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "segment/layout.h"

namespace uroce::daemon {
namespace {

constexpr uint64_t kBase = sizeof(segment::BaseMemory);
constexpr uint64_t kLane = sizeof(segment::LaneMemory);

/// So many lanes; nothing when it is refused.
std::optional<uint32_t> lanes(uint64_t bytes) {
  std::string words[] = {"uroced", "--port", "net_null0", "--max-memory", std::to_string(bytes)};
  char* argv[std::size(words)];
  for (size_t i = 0; i < std::size(words); i++) argv[i] = words[i].data();
  Options options;
  int code = 0;
  testing::internal::CaptureStderr();
  const bool taken = parse_options(static_cast<int>(std::size(words)), argv, options, code);
  const std::string said = testing::internal::GetCapturedStderr();
  if (taken) return options.config.uplink->lanes_max;
  EXPECT_EQ(code, 2);
  EXPECT_NE(said.find("--max-memory"), std::string::npos) << said;
  return std::nullopt;
}

TEST(UrocedOptions, MemoryIsForWholeLanesBesideTheBase) {
  EXPECT_EQ(lanes(0), std::nullopt);
  EXPECT_EQ(lanes(kBase), std::nullopt);
  EXPECT_EQ(lanes(kBase + kLane - 1), std::nullopt);
  EXPECT_EQ(lanes(kBase + kLane), 1u);
  EXPECT_EQ(lanes(kBase + 2 * kLane - 1), 1u);
  EXPECT_EQ(lanes(kBase + 2 * kLane), 2u);
  EXPECT_EQ(lanes(kLane << 33), UINT32_MAX) << "more than there are numbers for";
}

}  // namespace
}  // namespace uroce::daemon
