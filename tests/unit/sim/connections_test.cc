// Connection management between two real engines over a cable with faults: whatever happens, both sides agree in the
// end, and nothing is left over. UROCE_SEED repeats a run.
#include "sim/connections.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace uroce::sim {
namespace {

uint64_t storm_seed() {
  const char* text = std::getenv("UROCE_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 20261125;
}

ConnectionsOptions storm(uint32_t count, const char* faults) {
  ConnectionsOptions options;
  options.seed = storm_seed();
  options.count = count;
  const std::string why = fabric::parse_impairments(faults, options.link.impairments);
  EXPECT_EQ(why, "");
  return options;
}

std::string repeat_with(const ConnectionsOptions& options) {
  return "repeat with UROCE_SEED=" + std::to_string(options.seed);
}

TEST(Connections, ComeUpAtOnceWhereNothingIsLost) {
  const ConnectionsOptions options = storm(1000, "");
  const ConnectionsReport report = run_connections(options);
  EXPECT_EQ(report.failure, "") << repeat_with(options);
  EXPECT_EQ(report.established, 1000u);
  EXPECT_EQ(report.failed, 0u);
  EXPECT_EQ(report.client.retries + report.server.retries, 0u);
  EXPECT_EQ(report.client.tx_mads, 3000u) << "REQ, RTU and DREQ of each";
  EXPECT_EQ(report.server.tx_mads, 2000u) << "REP and DREP of each";
  EXPECT_LT(report.median.ns, milliseconds(1).ns);
}

TEST(Connections, TenThousandAtOnceWithLossLeaveNothingHalfOpen) {
  const ConnectionsOptions options = storm(10'000, "loss 1%");
  const ConnectionsReport report = run_connections(options);
  EXPECT_EQ(report.failure, "") << repeat_with(options);
  EXPECT_EQ(report.established, 10'000u) << repeat_with(options);
  EXPECT_EQ(report.half_open, 0u) << repeat_with(options);
  EXPECT_EQ(report.left_over, 0u) << repeat_with(options);
  EXPECT_GT(report.client.retries, 0u);
  EXPECT_GT(report.server.retries, 0u);
}

TEST(Connections, SurviveAStorm) {
  const ConnectionsOptions options = storm(2000, "loss 10%; duplicate 10%; reorder 20% within 1s");
  const ConnectionsReport report = run_connections(options);
  EXPECT_EQ(report.failure, "") << repeat_with(options);
  EXPECT_EQ(report.established, 2000u) << repeat_with(options);
  EXPECT_GT(report.client.duplicates, 0u);
}

TEST(Connections, ComeAsOftenAsIsAskedFor) {
  ConnectionsOptions options = storm(500, "");
  options.per_second = 1000;
  const ConnectionsReport report = run_connections(options);
  EXPECT_EQ(report.failure, "") << repeat_with(options);
  EXPECT_NEAR(report.per_second(), 1000, 10);
}

TEST(Connections, AreTheSameWithTheSameSeed) {
  ConnectionsOptions options = storm(300, "loss 5%");
  const uint64_t once = run_connections(options).hash;
  EXPECT_EQ(run_connections(options).hash, once) << repeat_with(options);
  options.seed++;
  EXPECT_NE(run_connections(options).hash, once) << repeat_with(options);
}

TEST(Connections, FailWhereNothingArrives) {
  ConnectionsOptions options = storm(10, "loss 100%");
  const ConnectionsReport report = run_connections(options);
  EXPECT_EQ(report.established, 0u);
  EXPECT_EQ(report.failed, 10u);
  EXPECT_EQ(report.failure, "") << "nothing is half open, either";
}

TEST(Connections, WhoeverIsNotAtRestInTimeIsFound) {
  ConnectionsOptions options = storm(1000, "loss 10%");
  options.limit = milliseconds(100);
  EXPECT_EQ(run_connections(options).failure, "connections do not come to rest");
}

}  // namespace
}  // namespace uroce::sim
