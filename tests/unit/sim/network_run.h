// A topology, a workload on it, and what came of it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "sim/flow_runner.h"
#include "sim/network.h"
#include "sim/sampler.h"
#include "sim/trace_hash.h"
#include "transport/counters.h"

namespace uroce::sim {

inline constexpr uint8_t kLossless = 1 << 3;  // FlowOptions' DSCP 26

inline NetworkConfig default_config() {
  NetworkConfig config;
  config.engine.max_frame_bytes = 1024 + 128;
  config.engine.max_qps = 512;
  config.engine.max_regions = 64;
  config.engine.ack_delay = Duration{0};
  config.engine.window_packets = 256;
  config.switches.set_lossless(kLossless);
  config.switches.flood_unknown = config.switches.learning = false;
  return config;
}

/// What does priority flow control for the hosts.
enum class By { kNic, kEngine, kNobody };

inline void set_flow_control(NetworkConfig& config, By by) {
  config.nic.obeys_pause = by == By::kNic;
  if (by == By::kNic) config.nic.pfc.lossless = kLossless;
  if (by == By::kEngine) config.engine.pfc.lossless = kLossless;
}

inline std::string by_name(const testing::TestParamInfo<By>& info) {
  return info.param == By::kNic ? "Nic" : info.param == By::kEngine ? "Engine" : "Nobody";
}

class NetworkRun {
 public:
  NetworkRun(const char* topology, const char* workload, Duration duration, uint64_t seed = 1,
             const NetworkConfig& config = default_config(), const TopologyOptions& options = {},
             const FlowOptions& flows = {}) {
    std::string error;
    const Topology drawing = build_topology(topology, options, error);
    EXPECT_EQ(error, "");
    network_ = std::make_unique<Network>(drawing, config, seed, error);
    EXPECT_EQ(error, "");
    for (uint32_t i = 0; i < drawing.links.size(); i++) {
      network_->cable(i).a_to_b->set_tap(&hash_, 2 * i);
      network_->cable(i).b_to_a->set_tap(&hash_, 2 * i + 1);
    }
    WorkloadContext context;
    context.network = network_.get();
    context.start = start_ = network_->world().now();
    context.duration = duration;
    context.seed = seed;
    context.read_file = [](const std::string& path, std::string& text) {
      text = path;  // the file's content is reported in its place
      return true;
    };
    workload_ = make_workload(workload, context, error);
    EXPECT_EQ(error, "");
    runner_ = std::make_unique<FlowRunner>(*network_, *workload_, flows);
  }

  bool until_done(Duration limit = milliseconds(1000)) {
    return network_->world().run_until([this] { return runner_->done(); }, limit);
  }
  Duration elapsed() { return network_->world().now() - start_; }
  /// Payload of all flows so far.
  std::vector<double> arrived() {
    std::vector<double> bytes;
    runner_->for_each_active([&](const FlowRecord&, uint64_t n) { bytes.push_back(static_cast<double>(n)); });
    return bytes;
  }
  Network& network() { return *network_; }
  FlowRunner& runner() { return *runner_; }
  NetworkTotals totals() { return totals_of(*network_); }
  uint64_t hash() const { return hash_.value(); }
  uint64_t retransmits() {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < network_->host_count(); i++) sum += network_->host(i).engine().counters().retransmits;
    return sum;
  }

 private:
  Instant start_;
  TraceHash hash_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Workload> workload_;
  std::unique_ptr<FlowRunner> runner_;
};

}  // namespace uroce::sim
