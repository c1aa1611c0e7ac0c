// Priority flow control that has gone wrong: a NIC that never stops pausing, and pauses that wait for each other in a
// ring. A watchdog finds both, and everything goes on without a wrong byte.
#include <gtest/gtest.h>

#include "network_run.h"

namespace uroce::sim {
namespace {

constexpr double kGigabit = 1e9 / 8e9;            // in bytes a nanosecond
constexpr double kGoodput = 100 * 1024 / 1106.0;  // of a cable's 100 Gb/s
constexpr Duration kWatchdog = milliseconds(2);

NetworkConfig config_of(By by, Duration watchdog) {
  NetworkConfig config = default_config();
  set_flow_control(config, by);
  config.engine.max_qps = 64;
  config.engine.window_packets = 8192;
  config.switches.pfc_watchdog = watchdog;
  return config;
}

class Pathology : public testing::TestWithParam<By> {
 protected:
  void make(const char* topology, const char* workload, const NetworkConfig& config) {
    run_ = std::make_unique<NetworkRun>(topology, workload, milliseconds(1), 1, config);
  }
  void storm(const char* cable, bool from_a, const char* text) {
    fabric::ImpairmentConfig faults;
    ASSERT_EQ(fabric::parse_impairments(text, faults), "");
    const Cable& it = run_->network().cable(run_->network().find_cable(cable));
    (from_a ? it.a_to_b : it.b_to_a)->set_impairments(faults);
  }
  /// Goodput of each flow in Gb/s from now on.
  std::vector<double> rates(Duration time) {
    const std::vector<double> before = run_->arrived();
    run_->network().world().run_for(time);
    std::vector<double> rates = run_->arrived();
    for (size_t i = 0; i < rates.size(); i++) {
      rates[i] = (rates[i] - before[i]) / static_cast<double>(time.ns) / kGigabit;
    }
    return rates;
  }
  double sum(Duration time) {
    double sum = 0;
    for (const double rate : rates(time)) sum += rate;
    return sum;
  }
  void expect_sound() {
    EXPECT_EQ(run_->runner().failed(), 0u) << run_->runner().first_failure();
    EXPECT_TRUE(run_->runner().memory_intact());
  }
  std::unique_ptr<NetworkRun> run_;
};

INSTANTIATE_TEST_SUITE_P(By, Pathology, testing::Values(By::kNic, By::kEngine), by_name);

// h1 sends to h0, whose NIC sends the storm, and to h2, which is not involved. h3 and h4 are on no common path.
constexpr const char* kStormFlows = "long:h1>h0,h1>h2,h3>h4";

TEST_P(Pathology, AStormStopsWhoSendsThereWithAllTheirFlows) {
  make("star:5", kStormFlows, config_of(GetParam(), Duration{}));
  storm("h0_s0", true, "pause-storm prio=3 from 1ms for 10ms");
  run_->network().world().run_for(milliseconds(2));
  const std::vector<double> during = rates(milliseconds(9));
  EXPECT_EQ(during[0], 0);
  EXPECT_EQ(during[1], 0);
  EXPECT_GT(during[2], 0.99 * kGoodput);
  // The last pause of 336 us ends, and with it all effects.
  run_->network().world().run_for(microseconds(500));
  const std::vector<double> after = rates(milliseconds(1));
  EXPECT_GT(after[0], 0.45 * kGoodput);
  EXPECT_GT(after[1], 0.45 * kGoodput);
  EXPECT_EQ(run_->totals().dropped, 0u);
  expect_sound();
}

TEST_P(Pathology, TheSwitchsWatchdogEndsAStormWhileItLasts) {
  make("star:5", kStormFlows, config_of(GetParam(), kWatchdog));
  storm("h0_s0", true, "pause-storm prio=3 from 1ms for 30ms");
  run_->network().world().run_for(microseconds(2'900));
  EXPECT_EQ(run_->totals().watchdog_fired, 0u);
  run_->network().world().run_for(milliseconds(1));
  EXPECT_EQ(run_->totals().watchdog_fired, 1u);
  const std::vector<double> during = rates(milliseconds(10));
  EXPECT_GT(during[0], 0.45 * kGoodput);
  EXPECT_GT(during[1], 0.45 * kGoodput);
  EXPECT_GT(during[2], 0.99 * kGoodput);
  // Waiting frames were discarded, and sent again.
  EXPECT_GT(run_->totals().dropped, 100u);
  EXPECT_GE(run_->retransmits(), run_->totals().dropped);
  run_->network().world().run_for(milliseconds(20));
  const std::vector<double> after = rates(milliseconds(2));
  EXPECT_GT(after[0] + after[1], 0.95 * kGoodput);
  EXPECT_EQ(run_->totals().watchdog_fired, 1u);
  expect_sound();
}

/// Every flow goes two switches further: each cable of the ring waits for the next one.
constexpr const char* kRingFlows = "long:h0>h2,h1>h3,h2>h4,h3>h0,h4>h1";

TEST_P(Pathology, PausesInARingWaitForEachOtherForEver) {
  NetworkConfig config = config_of(GetParam(), Duration{});
  config.switches.buffer_bytes = 2'000'000;
  make("ring:5", kRingFlows, config);
  run_->network().world().run_for(milliseconds(1));
  EXPECT_EQ(sum(milliseconds(50)), 0);
  const NetworkTotals totals = run_->totals();
  EXPECT_GT(totals.queued_bytes, 1'000'000u);
  EXPECT_EQ(totals.dropped, 0u);
  expect_sound();
}

TEST_P(Pathology, TheSwitchsWatchdogEndsADeadlock) {
  NetworkConfig config = config_of(GetParam(), kWatchdog);
  config.switches.buffer_bytes = 2'000'000;
  make("ring:5", kRingFlows, config);
  run_->network().world().run_for(microseconds(500));
  EXPECT_EQ(sum(milliseconds(1)), 0);
  run_->network().world().run_for(kWatchdog);
  EXPECT_EQ(run_->totals().watchdog_fired, 5u);
  // Five cables, and each flow takes two of them.
  EXPECT_GT(sum(milliseconds(5)), 0.9 * 2.5 * kGoodput);
  expect_sound();
}

/// Finite flows: nothing is lost in the end.
TEST_P(Pathology, WhatADeadlockHeldUpIsDelivered) {
  NetworkConfig config = config_of(GetParam(), kWatchdog);
  config.switches.buffer_bytes = 2'000'000;
  make("ring:5", "trace:0s h0 h2 4Mi\n0s h1 h3 4Mi\n0s h2 h4 4Mi\n0s h3 h0 4Mi\n0s h4 h1 4Mi", config);
  ASSERT_TRUE(run_->until_done());
  EXPECT_EQ(run_->runner().finished(), 5u);
  EXPECT_EQ(run_->totals().watchdog_fired, 5u);
  EXPECT_LT(run_->elapsed().ns, milliseconds(10).ns);
  EXPECT_GT(run_->totals().dropped, 0u);
  expect_sound();
}

class EngineWatchdog : public Pathology {};
INSTANTIATE_TEST_SUITE_P(By, EngineWatchdog, testing::Values(By::kEngine), by_name);

/// Nothing is between the host and the NIC that sends the storm, or the switch itself sends it: the engine's own
/// watchdog.
TEST_P(EngineWatchdog, EndsAStorm) {
  NetworkConfig config = config_of(GetParam(), Duration{});
  config.engine.pfc.watchdog = kWatchdog;
  make("back-to-back", "long", config);
  storm("h1_h0", true, "pause-storm prio=3 from 1ms for 30ms");
  run_->network().world().run_for(microseconds(1'050));
  EXPECT_EQ(sum(microseconds(1'800)), 0);
  run_->network().world().run_for(microseconds(200));
  EXPECT_GT(sum(milliseconds(10)), 0.99 * kGoodput);
  EXPECT_EQ(run_->totals().watchdog_fired, 1u);
  EXPECT_EQ(run_->retransmits(), 0u) << "only the sender had stopped";
  run_->network().world().run_for(milliseconds(20));
  EXPECT_GT(sum(milliseconds(1)), 0.99 * kGoodput);
  expect_sound();
}

}  // namespace
}  // namespace uroce::sim
