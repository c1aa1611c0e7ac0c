// What workloads begin, and when: no packet moves here.
#include "sim/workload.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "network_run.h"

namespace uroce::sim {
namespace {

constexpr Instant kStart{1'000'000};

class Workloads : public testing::Test {
 protected:
  std::unique_ptr<Workload> make(const char* spec, const char* file = nullptr) {
    WorkloadContext context{&network_, kStart, milliseconds(1), 7, {}};
    if (file != nullptr) {
      context.read_file = [file](const std::string& /*path*/, std::string& text) {
        text = file;
        return *file != '!';
      };
    }
    return make_workload(spec, context, error_);
  }
  std::string why_not(const char* spec, const char* file = nullptr) {
    EXPECT_EQ(make(spec, file), nullptr) << spec;
    return error_;
  }
  /// All that begin without another having ended; each when it was announced.
  std::vector<FlowSpec> flows_of(const char* spec, const char* file = nullptr) {
    const auto workload = make(spec, file);
    EXPECT_NE(workload, nullptr) << error_;
    std::vector<FlowSpec> flows;
    while (workload && workload->next_start() != Instant::never() && flows.size() < 1000) {
      const Instant announced = workload->next_start();
      flows.push_back(workload->take());
      EXPECT_EQ(flows.back().start, announced);
    }
    return flows;
  }

  std::string error_;
  const Topology topology_ = build_topology("star:5", {}, error_);
  Network network_{topology_, default_config(), 1, error_};
};

TEST_F(Workloads, LongFlowsBeginApartAndLast) {
  const auto flows = flows_of("long:h1>h0,h2>h0,h4>h3:100us:400us");
  ASSERT_EQ(flows.size(), 3u);
  const std::pair<uint32_t, uint32_t> wanted[] = {{1, 0}, {2, 0}, {4, 3}};
  for (size_t i = 0; i < 3; i++) {
    EXPECT_EQ(flows[i].from, wanted[i].first);
    EXPECT_EQ(flows[i].to, wanted[i].second);
    EXPECT_EQ(flows[i].start, kStart + microseconds(100) * static_cast<int64_t>(i));
    EXPECT_EQ(flows[i].stop, flows[i].start + microseconds(400));
  }
  const auto endless = flows_of("long");
  ASSERT_EQ(endless.size(), 5u);
  for (uint32_t i = 0; i < 5; i++) EXPECT_EQ(endless[i].to, (i + 2) % 5);
  EXPECT_EQ(endless[0].stop, FlowSpec{}.stop);
}

TEST_F(Workloads, OneRoundOfAnIncastOrOneEverySoOften) {
  EXPECT_EQ(flows_of("incast:3").size(), 3u);
  const auto flows = flows_of("incast:6:10k:500us");
  ASSERT_EQ(flows.size(), 12u) << "two rounds begin before the end";
  for (size_t i = 0; i < 12; i++) {
    EXPECT_EQ(flows[i].from, 1 + i % 6 % 4);
    EXPECT_EQ(flows[i].to, 0u);
    EXPECT_EQ(flows[i].bytes, 10'000u);
    EXPECT_EQ(flows[i].start, kStart + microseconds(i < 6 ? 0 : 500));
  }
}

TEST_F(Workloads, AllToAllIsEveryPairOnce) {
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  for (const FlowSpec& flow : flows_of("all-to-all:1k")) {
    EXPECT_NE(flow.from, flow.to);
    EXPECT_TRUE(pairs.emplace(flow.from, flow.to).second);
  }
  EXPECT_EQ(pairs.size(), 20u);
}

TEST_F(Workloads, ATraceIsSortedAndTwoOfOneInstantStayInOrder) {
  const auto flows = flows_of("trace:f", "20us h0 1 100 read # late\n\n 10us 2 h3 200\n10us h4 h0 300 write\n");
  ASSERT_EQ(flows.size(), 3u);
  EXPECT_EQ(flows[0].bytes, 200u);
  EXPECT_EQ(flows[1].bytes, 300u);
  EXPECT_EQ(flows[1].from, 4u);
  EXPECT_EQ(flows[2].kind, FlowKind::kRead);
  EXPECT_EQ(flows[2].start, kStart + microseconds(20));
}

/// A closed loop: as many as it is deep are under way, another begins when one has ended, and none after the end or
/// behind a failure.
TEST_F(Workloads, StorageWaitsUntilOneHasEnded) {
  const auto workload = make("storage:2:30%:8k");
  ASSERT_NE(workload, nullptr) << error_;
  FlowRecord record;
  for (int i = 0; i < 6; i++) {  // three clients
    ASSERT_EQ(workload->next_start(), kStart);
    record.spec = workload->take();
    EXPECT_EQ(record.spec.bytes, 8000u);
    EXPECT_EQ((record.spec.from + record.spec.to) % 2, 1u) << "a client and a server";
  }
  EXPECT_EQ(workload->next_start(), Instant::never());
  workload->on_flow_end(record, kStart + microseconds(999));
  EXPECT_EQ(workload->next_start(), kStart + microseconds(999));
  const FlowSpec next = workload->take();
  const auto client = [](const FlowSpec& flow) { return flow.kind == FlowKind::kRead ? flow.to : flow.from; };
  EXPECT_EQ(client(next), client(record.spec));
  EXPECT_EQ(workload->next_start(), Instant::never());
  workload->on_flow_end(record, kStart + milliseconds(1));
  record.failed = true;
  workload->on_flow_end(record, kStart + microseconds(5));
  EXPECT_EQ(workload->next_start(), Instant::never());
}

/// As many flows as offer that load, within what chance allows.
TEST_F(Workloads, PoissonOffersItsLoad) {
  const auto flows = flows_of("poisson:125k:50%");
  const double wanted = 0.5 * 5 * static_cast<double>(topology_.links[0].bits_per_second) / 8 / 1000 / 125'000;
  EXPECT_NEAR(static_cast<double>(flows.size()), wanted, 0.2 * wanted);
  for (const FlowSpec& flow : flows) {
    EXPECT_NE(flow.from, flow.to);
    EXPECT_LT(flow.start, kStart + milliseconds(1));
  }
}

TEST_F(Workloads, TogetherTheEarlierBeginsFirst) {
  const auto flows = flows_of("long:h1>h0,h2>h0:30us+incast:2:1k:20us");
  ASSERT_GT(flows.size(), 6u);
  for (size_t i = 1; i < flows.size(); i++) EXPECT_GE(flows[i].start, flows[i - 1].start);
}

TEST_F(Workloads, WhatIsWrongIsSaid) {
  for (const char* spec : {"long:h1>h1",
                           "long:h1>h9",
                           "long:h1-h0",
                           "long:h1>h0:soon",
                           "long:h1>h0:1us:soon",
                           "long:h1>h0:1us:1us:1us",
                           "incast",
                           "incast:0",
                           "incast:2:0",
                           "incast:2:1k:0ns",
                           "incast:2:1k:1us:1",
                           "all-to-all",
                           "all-to-all:0",
                           "all-to-all:1:1",
                           "storage:0",
                           "storage:1:101%",
                           "storage:1:1.1",
                           "storage:1:50%:0",
                           "storage:1:50%:1:1",
                           "poisson:1k",
                           "poisson:1k:0",
                           "poisson:1k:x",
                           "poisson:nothing:50%",
                           "trace",
                           "trace:f",
                           "sleep",
                           "long+sleep"}) {
    EXPECT_NE(why_not(spec), "") << spec;
  }
  EXPECT_EQ(why_not("trace:f", "!"), "cannot read 'f'");
  EXPECT_NE(why_not("poisson:f:50%", "!").find("that can be read"), std::string::npos);
  EXPECT_EQ(why_not("poisson:f:50%", "10:50"), "a distribution ends with BYTES:100");
  for (const char* line : {"1us h0 h1", "1 h0 h1 5", "1us h0 h0 5", "1us h0 h9 5", "1us 9 h0 5", "1us h0 h1 0",
                           "1us h0 h1 5 copy", "1us h0 h1 5 read 1"}) {
    EXPECT_EQ(why_not("trace:f", line), "f, line 1: expected START FROM TO BYTES [write|read]") << line;
  }
}

}  // namespace
}  // namespace uroce::sim
