// Engines in networks: routes, rates, flows, and that a run depends on its seed and on nothing else.
#include <gtest/gtest.h>

#include "network_run.h"
#include "transport/counters.h"

namespace uroce::sim {
namespace {

/// A flow without others takes the time of the formula.
class Alone : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

INSTANTIATE_TEST_SUITE_P(Flows, Alone,
                         testing::Combine(testing::Values("back-to-back", "star:2", "fat-tree:4"),
                                          testing::Values("1", "1000", "1024", "1025", "30000", "1000000", "5000000")));

TEST_P(Alone, TakesTheIdealTime) {
  NetworkRun run(std::get<0>(GetParam()), (std::string("incast:1:") + std::get<1>(GetParam())).c_str(),
                 milliseconds(1));
  ASSERT_TRUE(run.until_done());
  ASSERT_EQ(run.runner().flows().size(), 1u);
  EXPECT_NEAR(run.runner().flows()[0].slowdown(), 1, 0.004);
  EXPECT_EQ(run.retransmits(), 0u);
  EXPECT_TRUE(run.runner().memory_intact());
}

TEST(Network, NobodyAsksForAnAddress) {
  NetworkRun run("fat-tree:4", "all-to-all:20k", milliseconds(1));
  ASSERT_TRUE(run.until_done());
  EXPECT_EQ(run.runner().finished(), 16u * 15u);
  EXPECT_EQ(run.runner().failed(), 0u);
  for (uint32_t i = 0; i < run.network().host_count(); i++) {
    const Counters& counters = run.network().host(i).engine().counters();
    EXPECT_EQ(counters.arp_tx, 0u);
    EXPECT_EQ(counters.rx_drop_not_for_us + counters.rx_drop_not_roce, 0u);
  }
  EXPECT_EQ(run.totals().dropped, 0u);
  EXPECT_TRUE(run.runner().memory_intact());
}

TEST(Network, ArpFloodsAlongATreeWhenNeighboursAreNotPreloaded) {
  NetworkConfig config = default_config();
  config.preload_neighbours = false;
  config.switches.flood_unknown = config.switches.learning = true;
  NetworkRun run("fat-tree:4", "all-to-all:3000", milliseconds(1), 1, config);
  ASSERT_TRUE(run.until_done(milliseconds(5000)));
  EXPECT_EQ(run.runner().finished(), 16u * 15u);
  uint64_t asked = 0;
  for (uint32_t i = 0; i < run.network().host_count(); i++) {
    asked += run.network().host(i).engine().counters().arp_tx;
  }
  EXPECT_GE(asked, 16u * 15u / 2);
}

TEST(Network, FlowsLeaveWhenTheyAreToLeave) {
  NetworkRun run("star:3", "long:h1>h0,h2>h0:100us:300us", milliseconds(1));
  ASSERT_TRUE(run.until_done());
  EXPECT_EQ(run.runner().finished(), 2u);
  EXPECT_FALSE(run.runner().has_endless());
  // They end when what they have posted is done: four pieces of 1 MiB, 90 us each.
  EXPECT_GT(run.runner().flows()[0].end, run.runner().flows()[0].spec.start + microseconds(300));
  EXPECT_LT(run.runner().flows()[1].end, run.runner().flows()[1].spec.start + microseconds(1100));
  EXPECT_TRUE(run.runner().memory_intact());
}

TEST(Network, TwoFlowsOverOneCableShareIt) {
  NetworkRun run("dumbbell:2", "long", milliseconds(1));
  run.network().world().run_for(milliseconds(2));
  const auto bytes = run.arrived();
  ASSERT_EQ(bytes.size(), 2u);
  EXPECT_GT(jain_index(bytes), 0.99);
  // 100 Gb/s for 2 ms is 25 MB on the wire; 1024 of each 1106 bytes are payload.
  EXPECT_NEAR(bytes[0] + bytes[1], 25e6 * 1024 / 1106, 0.02 * 25e6);
  EXPECT_EQ(run.totals().dropped, 0u);
}

TEST(Network, IncastWithPfcLosesNothing) {
  NetworkRun run("star:33", "incast:32:256k", milliseconds(1));
  ASSERT_TRUE(run.until_done());
  EXPECT_EQ(run.runner().finished(), 32u);
  EXPECT_EQ(run.totals().dropped, 0u);
  EXPECT_EQ(run.retransmits(), 0u);
}

TEST(Network, IncastWithASmallBufferPausesAndStillLosesNothing) {
  NetworkConfig config = default_config();
  config.switches.buffer_bytes = 2'500'000;
  NetworkRun run("star:17", "incast:16:1M", milliseconds(1), 1, config);
  ASSERT_TRUE(run.until_done());
  EXPECT_EQ(run.totals().dropped, 0u);
  EXPECT_GT(run.totals().pauses_sent, 0u);
  EXPECT_EQ(run.retransmits(), 0u);
  uint64_t paused = 0;
  for (uint32_t i = 0; i < 17; i++) paused += run.network().host(i).port().counters().paused_ns;
  EXPECT_GT(paused, 0u);
}

TEST(Network, WithoutPfcASmallBufferDropsAndEverythingStillArrives) {
  NetworkConfig config = default_config();
  config.switches.buffer_bytes = 500'000;
  config.switches.set_lossless(0);
  NetworkRun run("star:17", "incast:16:1M", milliseconds(1), 1, config);
  ASSERT_TRUE(run.until_done(milliseconds(10'000)));
  EXPECT_EQ(run.runner().finished(), 16u);
  EXPECT_GT(run.totals().dropped, 0u);
  EXPECT_GT(run.retransmits(), 0u);
  EXPECT_EQ(run.totals().pauses_sent, 0u);
  EXPECT_TRUE(run.runner().memory_intact());
}

TEST(Network, QueuePairsAreUsedAgain) {
  NetworkRun run("star:8", "poisson:20k:0.3", milliseconds(4));
  ASSERT_TRUE(run.until_done());
  EXPECT_GT(run.runner().finished(), 3000u);
  EXPECT_EQ(run.runner().failed(), 0u);
  EXPECT_LT(run.runner().queue_pairs(), 200u);
  EXPECT_EQ(run.retransmits(), 0u);
}

TEST(Network, PoissonOffersTheLoadItWasAskedFor) {
  NetworkRun run("star:8", "poisson:websearch:0.4", milliseconds(40));
  run.network().world().run_for(milliseconds(41));
  double bytes = 0;
  for (const FlowRecord& flow : run.runner().flows()) bytes += static_cast<double>(flow.spec.bytes);
  EXPECT_NEAR(bytes, 0.4 * 8 * 100e9 / 8 * 0.040, 0.15 * 0.4 * 8 * 100e9 / 8 * 0.040);
}

TEST(Network, StorageReadsAndWrites) {
  NetworkRun run("star:6", "storage:4:0.5:16k", milliseconds(1));
  ASSERT_TRUE(run.until_done());
  uint64_t reads = 0;
  for (const FlowRecord& flow : run.runner().flows()) reads += flow.spec.kind == FlowKind::kRead;
  EXPECT_GT(run.runner().finished(), 500u);
  EXPECT_NEAR(static_cast<double>(reads), 0.5 * static_cast<double>(run.runner().finished()),
              0.1 * static_cast<double>(run.runner().finished()));
  EXPECT_EQ(run.runner().failed(), 0u);
  EXPECT_TRUE(run.runner().memory_intact());
}

TEST(Network, LossIsRepaired) {
  NetworkConfig config = default_config();
  EXPECT_EQ(fabric::parse_impairments("loss 0.1%; duplicate 0.1%; reorder 0.1%", config.faults), "");
  NetworkRun run("leaf-spine:2:2:4", "all-to-all:50k", milliseconds(1), 1, config);
  ASSERT_TRUE(run.until_done(milliseconds(10'000)));
  EXPECT_EQ(run.runner().finished(), 56u);
  EXPECT_GT(run.retransmits(), 0u);
  EXPECT_TRUE(run.runner().memory_intact());
}

TEST(Network, TheSameSeedIsTheSameRun) {
  const auto hash = [](uint64_t seed) {
    NetworkConfig config = default_config();
    EXPECT_EQ(fabric::parse_impairments("loss 0.05%", config.faults), "");
    NetworkRun run("fat-tree:4", "poisson:hadoop:0.3", microseconds(200), seed, config);
    EXPECT_TRUE(run.until_done(milliseconds(10'000)));
    return run.hash();
  };
  EXPECT_EQ(hash(5), hash(5));
  EXPECT_NE(hash(5), hash(6));
}

TEST(Network, RefusesWhatCannotWork) {
  std::string error;
  const Topology apart = parse_topology("host a b\nswitch s t\nlink a s 1G 1us\nlink b t 1G 1us\n", error);
  ASSERT_EQ(error, "");
  Network network(apart, default_config(), 1, error);
  EXPECT_EQ(error, "no way from 'a' to 'b'");
  const Topology loose = parse_topology("host a b c\nlink a b 1G 1us\n", error);
  Network other(loose, default_config(), 1, error);
  EXPECT_EQ(error, "host 'c' needs exactly one cable");
}

}  // namespace
}  // namespace uroce::sim
