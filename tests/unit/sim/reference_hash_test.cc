// Runs whose hashes were recorded from a build with GCC and -O3: every build has to come to them, whatever its
// compiler, optimisation or sanitizers.
//
// They change whenever the bytes on the wire or their times change on purpose; then the new ones are recorded, after a
// second compiler has come to the same.
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <functional>

#include "operations.h"
#include "sim/flow_runner.h"
#include "sim/network.h"
#include "sim/trace_hash.h"
#include "transport/counters.h"

namespace uroce::sim {

/// Flows in a network with all that the name says.
struct Reference {
  const char* name;
  uint64_t recorded;
  const char* topology;
  const char* workload;
  const char* faults;
  CongestionAlgorithm congestion = CongestionAlgorithm::kNone;
  LossRecovery recovery = LossRecovery::kGoBackN;
  bool pfc = false;
};

void PrintTo(const Reference& reference, std::ostream* out) { *out << reference.name; }

namespace {

constexpr char kEveryFault[] =
    "loss 0.1%; duplicate 0.1%; reorder 0.1%; corrupt 0.1%; jitter 200ns; burst-loss to-bad=0.01% to-good=30%";

constexpr Reference kReferences[] = {
    {.name = "FatTreeWithPfcAndEveryFault",
     .recorded = 0xb3109552e6ecc4dd,
     .topology = "fat-tree:4",
     .workload = "poisson:websearch:0.5+incast:15:100k:100us+storage:2:50%:8k",
     .faults = kEveryFault,
     .pfc = true},
    // Several equal paths, and ECN that slows senders down.
    {.name = "LeafSpineDcqcnSelective",
     .recorded = 0x0ac0aeeb0825d8a7,
     .topology = "leaf-spine:3:2:4",
     .workload = "poisson:hadoop:0.6+incast:11:200k:100us+storage:2:50%:8k",
     .faults = kEveryFault,
     .congestion = CongestionAlgorithm::kDcqcn,
     .recovery = LossRecovery::kAuto,
     .pfc = true},
    {.name = "LeafSpineTimely",
     .recorded = 0xfbabf3c0b152613d,
     .topology = "leaf-spine:2:2:4",
     .workload = "poisson:websearch:0.5+incast:7:200k:100us",
     .faults = "loss 0.01%; down from 100us for 20us; drop every 3000 ack",
     .congestion = CongestionAlgorithm::kTimely},
    {.name = "DumbbellSwiftSelective",
     .recorded = 0x31b39bc290615c9e,
     .topology = "dumbbell:4",
     .workload = "poisson:websearch:0.4+all-to-all:60k",
     .faults = "drop every 900 data; delay 7-20 ack by 30us; duplicate every 1000 any by 5us; mark every 500 data;"
               "pause-storm prio=3 quanta=200 from 150us for 50us every 10us",
     .congestion = CongestionAlgorithm::kSwift,
     .recovery = LossRecovery::kSelective},
};

std::string hex(uint64_t value) {
  char text[19];
  std::snprintf(text, sizeof text, "0x%016" PRIx64, value);
  return text;
}

class ReferenceRun : public testing::TestWithParam<Reference> {};

INSTANTIATE_TEST_SUITE_P(Networks, ReferenceRun, testing::ValuesIn(kReferences),
                         [](const auto& row) { return row.param.name; });

TEST_P(ReferenceRun, HasTheRecordedHash) {
  const Reference& reference = GetParam();
  NetworkConfig config;
  config.engine.max_frame_bytes = 1024 + 128;
  config.engine.max_qps = 512;
  config.engine.max_regions = 64;
  config.engine.congestion.algorithm = reference.congestion;
  config.engine.loss_recovery = reference.recovery;
  if (reference.pfc) config.switches.set_lossless(1 << 3);
  config.switches.buffer_bytes = 3'000'000;
  config.switches.learning = config.switches.flood_unknown = false;
  ASSERT_EQ(fabric::parse_impairments(reference.faults, config.faults), "");
  std::string error;
  const Topology topology = build_topology(reference.topology, {}, error);
  Network network(topology, config, 20'261'121, error);
  ASSERT_EQ(error, "");
  TraceHash hash;
  for (uint32_t i = 0; i < topology.links.size(); i++) {
    network.cable(i).a_to_b->set_tap(&hash, 2 * i);
    network.cable(i).b_to_a->set_tap(&hash, 2 * i + 1);
  }
  const auto workload =
      make_workload(reference.workload, {&network, network.world().now(), microseconds(300), 7, {}}, error);
  ASSERT_EQ(error, "");
  FlowOptions options;
  options.timeout = 8;
  FlowRunner runner(network, *workload, options);
  ASSERT_TRUE(network.world().run_until([&] { return runner.done(); }, milliseconds(1000)));
  EXPECT_EQ(runner.failed(), 0u) << runner.first_failure();
  EXPECT_GT(hash.frames(), 20'000u);
  EXPECT_TRUE(runner.memory_intact());
  EXPECT_EQ(hash.value(), reference.recorded) << hex(hash.value()) << " after " << hash.frames() << " frames";
  // The run had the features in its name.
  Counters sum;
  for (uint32_t i = 0; i < network.host_count(); i++) {
    const Counters& counters = network.host(i).engine().counters();
    sum.np_cnp_sent += counters.np_cnp_sent;
    sum.tx_sack += counters.tx_sack;
    sum.retransmits += counters.retransmits;
  }
  EXPECT_EQ(sum.np_cnp_sent != 0, reference.congestion != CongestionAlgorithm::kNone);
  EXPECT_EQ(sum.tx_sack != 0, reference.recovery != LossRecovery::kGoBackN);
  EXPECT_GT(sum.retransmits, 30u);
}

/// Every operation of every service. Memory addresses are on the wire here, so the reference is the sums of the run:
/// each frame is an event, and the faults of the cables follow the frames.
struct ReferenceTraffic {
  const char* name;
  const char* recorded;
  QpType type;
  LossRecovery recovery = LossRecovery::kGoBackN;
};

void PrintTo(const ReferenceTraffic& reference, std::ostream* out) { *out << reference.name; }

constexpr ReferenceTraffic kTraffic[] = {
    {"Rc", "29705 events, 6437828 bytes, 1307 messages, 2767 again, 0 SACKs, 125 NAKs, 71 lost, 1.000000000 s",
     QpType::kRc},
    {"RcSelective", "23523 events, 4775618 bytes, 1296 messages, 181 again, 1297 SACKs, 0 NAKs, 49 lost, 0.001380454 s",
     QpType::kRc, LossRecovery::kAuto},
    {"Uc", "19554 events, 6492580 bytes, 2881 messages, 0 again, 0 SACKs, 0 NAKs, 40 lost, 0.000283292 s", QpType::kUc},
    {"Ud", "10049 events, 3450796 bytes, 4007 messages, 0 again, 0 SACKs, 0 NAKs, 18 lost, 0.000169466 s", QpType::kUd},
};

class ReferenceOperations : public testing::TestWithParam<ReferenceTraffic> {};

INSTANTIATE_TEST_SUITE_P(Services, ReferenceOperations, testing::ValuesIn(kTraffic),
                         [](const auto& row) { return row.param.name; });

TEST_P(ReferenceOperations, HaveTheRecordedSums) {
  Operations::What what{.type = GetParam().type, .seed = 20'261'121, .recovery = GetParam().recovery};
  ASSERT_EQ(fabric::parse_impairments("loss 0.5%; corrupt 0.5%; duplicate 1%; reorder 1%", what.faults), "");
  EXPECT_EQ(Operations(what).run(), GetParam().recorded);
}

}  // namespace
}  // namespace uroce::sim
