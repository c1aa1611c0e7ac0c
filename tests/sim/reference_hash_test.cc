// A run whose hash was recorded from a build with GCC and -O3: every build has to come to it, whatever its compiler,
// optimisation or sanitizers.
//
// It changes whenever the bytes on the wire or their times change on purpose; then the new one is recorded, after a
// second compiler has come to the same.
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>

#include "sim/flow_runner.h"
#include "sim/network.h"
#include "sim/trace_hash.h"

namespace uroce::sim {
namespace {

constexpr uint64_t kRecorded = 0xb3109552e6ecc4dd;

TEST(ReferenceRun, HasTheRecordedHash) {
  NetworkConfig config;
  config.engine.max_frame_bytes = 1024 + 128;
  config.engine.max_qps = 512;
  config.engine.max_regions = 64;
  config.switches.set_lossless(1 << 3);
  config.switches.buffer_bytes = 3'000'000;
  config.switches.learning = config.switches.flood_unknown = false;
  ASSERT_EQ(fabric::parse_impairments("loss 0.1%; duplicate 0.1%; reorder 0.1%; corrupt 0.1%; jitter 200ns; "
                                      "burst-loss to-bad=0.01% to-good=30%",
                                      config.faults),
            "");
  std::string error;
  const Topology topology = build_topology("fat-tree:4", {}, error);
  Network network(topology, config, 20'261'121, error);
  ASSERT_EQ(error, "");
  TraceHash hash;
  for (uint32_t i = 0; i < topology.links.size(); i++) {
    network.cable(i).a_to_b->set_tap(&hash, 2 * i);
    network.cable(i).b_to_a->set_tap(&hash, 2 * i + 1);
  }
  const auto workload = make_workload("poisson:websearch:0.5+incast:15:100k:100us+storage:2:50%:8k",
                                      {&network, network.world().now(), microseconds(300), 7, {}}, error);
  ASSERT_EQ(error, "");
  FlowOptions options;
  options.timeout = 8;
  FlowRunner runner(network, *workload, options);
  ASSERT_TRUE(network.world().run_until([&] { return runner.done(); }, milliseconds(1000)));
  EXPECT_EQ(runner.failed(), 0u);
  EXPECT_GT(hash.frames(), 100'000u);
  EXPECT_TRUE(runner.memory_intact());
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, hash.value());
  EXPECT_EQ(hash.value(), kRecorded) << text << " after " << hash.frames() << " frames";
}

}  // namespace
}  // namespace uroce::sim
