// The text that Prometheus reads, as its format is described: each expectation is written out.
#include "common/prometheus.h"

#include <gtest/gtest.h>

#include <limits>

namespace uroce::metrics {
namespace {

TEST(Prometheus, GathersTheSamplesOfAMetric) {
  Exposition all;
  all.add(Type::kCounter, "sent_total", "What was sent", {{"port", "a"}}, uint64_t{1});
  all.add(Type::kGauge, "level", "How full", {}, 0.25);
  all.add(Type::kCounter, "sent_total", "said before", {{"port", "b"}, {"pid", "7"}}, UINT64_MAX);
  EXPECT_EQ(all.text(),
            "# HELP level How full\n"
            "# TYPE level gauge\n"
            "level 0.25\n"
            "# HELP sent_total What was sent\n"
            "# TYPE sent_total counter\n"
            "sent_total{port=\"a\"} 1\n"
            "sent_total{port=\"b\",pid=\"7\"} 18446744073709551615\n");
}

TEST(Prometheus, EscapesWhatThePathOfAProgramMayContain) {
  Exposition all;
  all.add(Type::kGauge, "x", "a \\ and a\nline, \"quoted\"", {{"program", "a\"b\\c\nd{}=,"}}, uint64_t{0});
  EXPECT_EQ(all.text(),
            "# HELP x a \\\\ and a\\nline, \"quoted\"\n"
            "# TYPE x gauge\n"
            "x{program=\"a\\\"b\\\\c\\nd{}=,\"} 0\n");
}

TEST(Prometheus, MakesNamesThatAreAllowed) {
  Exposition all;
  all.add(Type::kGauge, "2nd-level.x", "", {{"a b", "1"}}, uint64_t{0});
  EXPECT_EQ(all.text(), "# HELP _2nd_level_x \n# TYPE _2nd_level_x gauge\n_2nd_level_x{a_b=\"1\"} 0\n");
}

TEST(Prometheus, WritesNumbersThatAreNone) {
  Exposition all;
  const double infinity = std::numeric_limits<double>::infinity();
  all.add(Type::kGauge, "x", "h", {}, infinity);
  all.add(Type::kGauge, "x", "h", {}, -infinity);
  all.add(Type::kGauge, "x", "h", {}, std::numeric_limits<double>::quiet_NaN());
  all.add(Type::kGauge, "x", "h", {}, 1e300);
  EXPECT_EQ(all.text(), "# HELP x h\n# TYPE x gauge\nx +Inf\nx -Inf\nx NaN\nx 1e+300\n");
}

TEST(Prometheus, TellsOfEndpoints) {
  EndpointSample busy{.pid = 12,
                      .program = "rping",
                      .port = "memif wire, end 0",
                      .number = "",
                      .link_up = true,
                      .qps = 2,
                      .regions = 3,
                      .counters = {{"tx_packets", 5}, {"retransmits", 0}}};
  EndpointSample stopped{.pid = 13, .answers = false, .program = {}, .port = {}, .number = {}, .counters = {}};
  EXPECT_EQ(endpoints_text({busy, stopped}),
            "# HELP uroce_link_up 1 when the port's peer is there\n"
            "# TYPE uroce_link_up gauge\n"
            "uroce_link_up{pid=\"12\",program=\"rping\",port=\"memif wire, end 0\"} 1\n"
            "# HELP uroce_memory_regions Memory regions that are registered now\n"
            "# TYPE uroce_memory_regions gauge\n"
            "uroce_memory_regions{pid=\"12\",program=\"rping\",port=\"memif wire, end 0\"} 3\n"
            "# HELP uroce_queue_pairs Queue pairs that exist now\n"
            "# TYPE uroce_queue_pairs gauge\n"
            "uroce_queue_pairs{pid=\"12\",program=\"rping\",port=\"memif wire, end 0\"} 2\n"
            "# HELP uroce_retransmits_total Counter retransmits, see doc/debugging.md\n"
            "# TYPE uroce_retransmits_total counter\n"
            "uroce_retransmits_total{pid=\"12\",program=\"rping\",port=\"memif wire, end 0\"} 0\n"
            "# HELP uroce_tx_packets_total Counter tx_packets, see doc/debugging.md\n"
            "# TYPE uroce_tx_packets_total counter\n"
            "uroce_tx_packets_total{pid=\"12\",program=\"rping\",port=\"memif wire, end 0\"} 5\n"
            "# HELP uroce_up 1 for a program with an open device that answers, 0 for one that does not\n"
            "# TYPE uroce_up gauge\n"
            "uroce_up{pid=\"12\"} 1\n"
            "uroce_up{pid=\"13\"} 0\n");
  EXPECT_EQ(endpoints_text({}), "");
  // No two samples of a metric have the same labels.
  EndpointSample first{.pid = 14, .program = "app", .port = "shmlan", .number = "0", .link_up = true, .counters = {}};
  EndpointSample second = first;
  second.number = "3";
  const std::string text = endpoints_text({first, second});
  EXPECT_NE(text.find("uroce_up gauge\nuroce_up{pid=\"14\"} 1\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("uroce_up{"), text.rfind("uroce_up{")) << text;
  for (const char* number : {"0", "3"}) {
    const std::string labels = std::string("{pid=\"14\",program=\"app\",port=\"shmlan\",endpoint=\"") + number;
    EXPECT_NE(text.find("uroce_link_up" + labels + "\"} 1\n"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace uroce::metrics
