// Topologies, routes, numbers with units, size distributions: what a run is made of before anything moves.
#include "sim/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sim/flow.h"
#include "sim/portable_math.h"
#include "sim/routes.h"
#include "sim/size_distribution.h"

namespace uroce::sim {
namespace {

Topology make(const char* spec) {
  std::string error;
  Topology topology = build_topology(spec, {}, error);
  EXPECT_EQ(error, "");
  return topology;
}

struct Shape {
  const char* spec;
  size_t hosts;
  size_t switches;
  size_t links;
};

class BuiltIn : public testing::TestWithParam<Shape> {};

INSTANTIATE_TEST_SUITE_P(Topologies, BuiltIn,
                         testing::Values(Shape{"back-to-back", 2, 0, 1}, Shape{"star:7", 7, 1, 7},
                                         Shape{"ring:5", 5, 5, 10}, Shape{"ring:2", 2, 2, 3},
                                         Shape{"mesh:4:2", 8, 4, 14}, Shape{"dumbbell:3", 6, 2, 7},
                                         Shape{"parking-lot:3", 8, 4, 11}, Shape{"victim", 9, 10, 25},
                                         Shape{"leaf-spine:4:2:8", 32, 6, 40}, Shape{"fat-tree:4", 16, 20, 48},
                                         Shape{"fat-tree:8", 128, 80, 384}, Shape{"hpcc", 320, 56, 480}));

TEST_P(BuiltIn, HasItsNodesAndEveryHostReachesEveryOther) {
  const Topology topology = make(GetParam().spec);
  const auto hosts = topology.hosts();
  EXPECT_EQ(hosts.size(), GetParam().hosts);
  EXPECT_EQ(topology.nodes.size() - hosts.size(), GetParam().switches);
  EXPECT_EQ(topology.links.size(), GetParam().links);
  const auto ports = ports_of(topology);
  for (const uint32_t host : hosts) EXPECT_EQ(ports[host].size(), 1u);
  for (const uint32_t to : {hosts.front(), hosts.back()}) {
    for (const uint32_t from : hosts) {
      if (from == to) continue;
      EXPECT_FALSE(a_path(topology, ports, from, to).empty());
    }
  }
  for (const auto& [from, to] : topology.flows) {
    EXPECT_TRUE(topology.nodes[from].is_host && topology.nodes[to].is_host);
  }
}

TEST(Routes, FatTreeHasEveryEqualPath) {
  const Topology topology = make("fat-tree:4");
  const auto ports = ports_of(topology);
  const uint32_t first = topology.find("h0");
  const uint32_t last = topology.find("h15");
  EXPECT_EQ(a_path(topology, ports, first, last).size(), 6u);
  const auto next = next_ports(topology, ports, last);
  EXPECT_EQ(next[topology.find("edge0-0")].size(), 2u);
  EXPECT_EQ(next[topology.find("agg0-1")].size(), 2u);
  EXPECT_EQ(next[topology.find("core3")].size(), 1u);
  EXPECT_EQ(next[topology.find("edge3-1")].size(), 1u);
  EXPECT_EQ(next[topology.find("h1")].size(), 1u);  // hosts use their cable, and no path leads through them
}

TEST(Routes, TheTreeOfARingHasNoLoop) {
  const Topology topology = make("ring:5");
  const auto tree = spanning_tree(topology, ports_of(topology));
  size_t ends = 0;
  for (const auto& node : tree) ends += static_cast<size_t>(std::count(node.begin(), node.end(), true));
  EXPECT_EQ(ends, 2 * (10 - 1u));  // 10 nodes are joined by 9 cables
}

TEST(TopologyText, RangesAndFlows) {
  std::string error;
  const Topology topology = parse_topology(
      "# two racks\nhost h[0-3]\nswitch s0 s1\n"
      "link h[0-1] s0 100G 1us\nlink h[2-3] s1 25G 500ns\nlink s0 s1 2.5G 1ms # slow\nflow h[0-1] h[2-3]\n",
      error);
  ASSERT_EQ(error, "");
  EXPECT_EQ(topology.nodes.size(), 6u);
  ASSERT_EQ(topology.links.size(), 5u);
  EXPECT_EQ(topology.links[2].bits_per_second, 25'000'000'000u);
  EXPECT_EQ(topology.links[2].delay, nanoseconds(500));
  EXPECT_EQ(topology.links[4].bits_per_second, 2'500'000'000u);
  EXPECT_EQ(topology.flows, (std::vector<std::pair<uint32_t, uint32_t>>{{0, 2}, {1, 3}}));
}

TEST(TopologyText, SaysWhereItIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"host a\nhost a\n", "line 2: 'a' is there twice"},
      {"host a b\nlink a c 1G 1us\n", "line 2: no node 'c'"},
      {"host a b\nlink a b 1X 1us\n", "line 2: '1X' is not a rate"},
      {"host a b\nlink a b 1G 1\n", "line 2: '1' is not a time"},
      {"host a[3-1]\n", "line 1: 'a[3-1]' is not a name or NAME[A-B]"},
      {"host a[0-3] b[0-1]\nlink a[0-3] b[0-1] 1G 1us\n", "line 2: ranges of different lengths"},
      {"cable a b\n", "line 1: 'cable': expected host, switch, link or flow"},
      {"switch a\n", "no host"},
  };
  for (const auto& [text, why] : wrong) {
    std::string error;
    parse_topology(text, error);
    EXPECT_EQ(error, why) << text;
  }
  std::string error;
  build_topology("fat-tree:5", {}, error);
  EXPECT_NE(error, "");
  build_topology("star:4:4", {}, error);
  EXPECT_NE(error, "");
  build_topology("cube", {}, error);
  EXPECT_EQ(error, "'cube' is not a topology");
}

TEST(Units, ExactOrRefused) {
  uint64_t value = 0;
  Duration duration;
  EXPECT_TRUE(parse_rate("2.5G", value));
  EXPECT_EQ(value, 2'500'000'000u);
  EXPECT_TRUE(parse_rate("1000", value));
  EXPECT_EQ(value, 1000u);
  EXPECT_TRUE(parse_duration("1.5us", duration));
  EXPECT_EQ(duration.ns, 1500);
  EXPECT_TRUE(parse_bytes("64Ki", value));
  EXPECT_EQ(value, 65536u);
  EXPECT_TRUE(parse_bytes("1.5MB", value));
  EXPECT_EQ(value, 1'500'000u);
  EXPECT_FALSE(parse_duration("1", duration));
  EXPECT_FALSE(parse_duration("0.5ns", duration));
  EXPECT_TRUE(parse_duration("1000000s", duration));
  EXPECT_FALSE(parse_duration("1000001s", duration)) << "sums have to fit";
  EXPECT_FALSE(parse_rate("-1G", value));
  EXPECT_FALSE(parse_rate("1.G", value));
  EXPECT_FALSE(parse_rate("99999999999T", value));
  EXPECT_FALSE(parse_bytes("", value));
}

TEST(Units, EachHasItsValue) {
  uint64_t value = 0;
  Duration duration;
  const std::pair<const char*, uint64_t> rates[] = {{"3T", 3'000'000'000'000},
                                                    {"3Tbps", 3'000'000'000'000},
                                                    {"3G", 3'000'000'000},
                                                    {"3Gbps", 3'000'000'000},
                                                    {"3M", 3'000'000},
                                                    {"3Mbps", 3'000'000},
                                                    {"3k", 3'000},
                                                    {"3kbps", 3'000},
                                                    {"3", 3},
                                                    {"3bps", 3}};
  for (const auto& [text, wanted] : rates) {
    EXPECT_TRUE(parse_rate(text, value)) << text;
    EXPECT_EQ(value, wanted) << text;
  }
  const std::pair<const char*, int64_t> durations[] = {
      {"3ns", 3}, {"3us", 3'000}, {"3ms", 3'000'000}, {"3s", 3'000'000'000}};
  for (const auto& [text, wanted] : durations) {
    EXPECT_TRUE(parse_duration(text, duration)) << text;
    EXPECT_EQ(duration.ns, wanted) << text;
  }
  const std::pair<const char*, uint64_t> sizes[] = {
      {"3", 3},          {"3k", 3000},       {"3K", 3000},       {"3kB", 3000},          {"3KB", 3000},
      {"3M", 3'000'000}, {"3MB", 3'000'000}, {"3G", 3000000000}, {"3GB", 3'000'000'000}, {"3ki", 3072},
      {"3Ki", 3072},     {"3kiB", 3072},     {"3KiB", 3072},     {"3Mi", 3u << 20},      {"3MiB", 3u << 20},
      {"3Gi", 3u << 30}, {"3GiB", 3u << 30}};
  for (const auto& [text, wanted] : sizes) {
    EXPECT_TRUE(parse_bytes(text, value)) << text;
    EXPECT_EQ(value, wanted) << text;
  }
}

/// To the byte, since the mean has a part of every point.
TEST(Sizes, PublishedMeans) {
  SizeDistribution sizes;
  ASSERT_TRUE(SizeDistribution::named("websearch", sizes));
  EXPECT_NEAR(sizes.mean_bytes(), 1'711'250, 0.001);
  ASSERT_TRUE(SizeDistribution::named("hadoop", sizes));
  EXPECT_NEAR(sizes.mean_bytes(), 120'420.75, 0.001);
}

TEST(Sizes, DrawnAsTheCurveSays) {
  SizeDistribution sizes;
  ASSERT_TRUE(SizeDistribution::named("websearch", sizes));
  SeededRandom random(3);
  constexpr int kDraws = 100'000;
  int small = 0;
  int middle = 0;
  for (int i = 0; i < kDraws; i++) {
    const uint64_t bytes = sizes.draw(random);
    EXPECT_GE(bytes, 1u);
    EXPECT_LE(bytes, 30'000'000u);
    small += bytes <= 20'000;
    middle += bytes <= 1'000'000;
  }
  EXPECT_NEAR(small, kDraws * 0.20, kDraws * 0.01);
  EXPECT_NEAR(middle, kDraws * 0.70, kDraws * 0.01);
}

TEST(Sizes, FromText) {
  std::string error;
  const SizeDistribution sizes = SizeDistribution::parse("0:0, 10k:50\n1M:99.5 2M:100", error);
  EXPECT_EQ(error, "");
  EXPECT_EQ(sizes.points().size(), 4u);
  for (const char* wrong : {"", "1:50", "10:100 5:100", "10:60 20:50 30:100", "x:100", "10"}) {
    SizeDistribution::parse(wrong, error);
    EXPECT_NE(error, "") << wrong;
  }
}

TEST(PortableMath, LogarithmAndExponential) {
  for (const double x : {1e-300, 1e-9, 0.1, 0.5, 0.70710678, 0.9999999, 1.0, 1.4142135, 1.4142136, 2.0, 3.0, 1e9}) {
    EXPECT_NEAR(natural_log(x), std::log(x), 1e-12 * std::max(1.0, std::abs(std::log(x)))) << x;
  }
  SeededRandom random(1);
  double sum = 0;
  for (int i = 0; i < 100'000; i++) sum += exponential(random, 5);
  EXPECT_NEAR(sum / 100'000, 5, 0.05);
}

TEST(Flow, JainAndPercentiles) {
  EXPECT_DOUBLE_EQ(jain_index({1, 1, 1, 1}), 1);
  EXPECT_DOUBLE_EQ(jain_index({4, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(jain_index({}), 1);
  std::vector<double> values{5, 1, 4, 2, 3};
  EXPECT_EQ(percentile(values, 50), 3);
  EXPECT_EQ(percentile(values, 100), 5);
  EXPECT_EQ(percentile(values, 1), 1);
}

}  // namespace
}  // namespace uroce::sim
