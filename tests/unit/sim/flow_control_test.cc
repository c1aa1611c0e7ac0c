// Priority flow control in networks: done by NICs, or by the engine as on ports that cannot.
#include <gtest/gtest.h>

#include "network_run.h"
#include "transport/counters.h"

namespace uroce::sim {
namespace {

constexpr Duration kSlow = microseconds(20);

NetworkConfig config_of(By by) {
  NetworkConfig config = default_config();
  config.engine.max_qps = 64;
  config.engine.window_packets = 4096;  // more than all buffers hold: only pauses stop a sender
  config.switches.buffer_bytes = 8'000'000;
  set_flow_control(config, by);
  config.nic.rx_frames = 1024;
  return config;
}

class FlowControl : public testing::TestWithParam<By> {};

INSTANTIATE_TEST_SUITE_P(By, FlowControl, testing::Values(By::kNic, By::kEngine), by_name);

void expect_no_drop(NetworkRun& run) {
  const NetworkTotals totals = run.totals();
  EXPECT_EQ(totals.dropped, 0u);
  EXPECT_EQ(totals.nic_dropped, 0u);
  EXPECT_EQ(run.retransmits(), 0u);
  EXPECT_EQ(run.runner().failed(), 0u);
  EXPECT_TRUE(run.runner().memory_intact());
}

/// 64 to one; what they send at once is many times the buffer.
TEST_P(FlowControl, IncastOf64LosesNothing) {
  for (const uint32_t packets : {64u, 1024u}) {
    const std::string workload = "incast:64:" + std::to_string(packets) + "Ki";
    NetworkRun run("star:65", workload.c_str(), milliseconds(1), 1, config_of(GetParam()));
    ASSERT_TRUE(run.until_done());
    EXPECT_EQ(run.runner().finished(), 64u);
    EXPECT_GT(run.totals().pauses_sent, 32u);
    expect_no_drop(run);
    // The receiver's cable is never idle: packets of 1106 bytes, and the time of one on its way.
    EXPECT_LT(static_cast<double>(run.elapsed().ns), 1.02 * (64 * packets * 1106 * 8 / 100.0 + 4000)) << packets;
  }
}

TEST(NoFlowControl, WhoDoesNotObeyLoses) {
  NetworkRun run("star:65", "incast:64:256Ki", milliseconds(1), 1, config_of(By::kNobody));
  ASSERT_TRUE(run.until_done());
  EXPECT_GT(run.totals().dropped, 1000u);
  EXPECT_TRUE(run.runner().memory_intact());
}

/// A host that looks at its NIC every 20 us and takes 64 frames then, a quarter of what can arrive, pauses its switch.
TEST_P(FlowControl, ASlowHostPausesItsSwitchAndLosesNothing) {
  NetworkConfig config = config_of(GetParam());
  config.slow_hosts = {{"h0", kSlow}};
  NetworkRun run("star:3", "incast:2:8Mi", milliseconds(1), 1, config);
  ASSERT_TRUE(run.until_done());
  EXPECT_GT(run.totals().host_pauses, 10u);
  EXPECT_LT(run.network().host(0).port().counters().rx_most, 320u);
  expect_no_drop(run);
  // It receives as fast as it can take frames.
  const double frames = 2 * 8 * 1024;
  EXPECT_LT(static_cast<double>(run.elapsed().ns), 1.25 * frames / 64 * static_cast<double>(kSlow.ns));
}

TEST(NoFlowControl, ASlowHostWithoutItLoses) {
  NetworkConfig config = config_of(By::kNobody);
  config.slow_hosts = {{"h0", kSlow}};
  NetworkRun run("star:3", "incast:2:8Mi", milliseconds(1), 1, config);
  ASSERT_TRUE(run.until_done());
  EXPECT_GT(run.totals().nic_dropped, 1000u);
  EXPECT_EQ(run.totals().host_pauses, 0u);
}

/// A slow host obeys pause frames late, too: its switch port has the headroom for that.
TEST_P(FlowControl, ASlowSenderIsAllowedFor) {
  NetworkConfig config = config_of(GetParam());
  config.slow_hosts = {{"h1", kSlow}, {"h2", kSlow}};
  config.switches.buffer_bytes = 4'000'000;
  NetworkRun run("star:9", "incast:8:4Mi", milliseconds(1), 1, config);
  ASSERT_TRUE(run.until_done());
  EXPECT_GT(run.totals().pauses_sent, 8u);
  expect_no_drop(run);
}

}  // namespace
}  // namespace uroce::sim
