#include "uroce_switch/options.h"

#include <gtest/gtest.h>

namespace uroce::netswitch {
namespace {

TEST(SwitchOptions, Targets) {
  struct Case {
    const char* text;
    std::optional<unsigned> port;
    std::optional<bool> in;
    const char* rest;
  };
  for (const Case& c : {Case{"loss 1%", {}, {}, "loss 1%"}, Case{"2:loss 1%", 2, {}, "loss 1%"},
                        Case{"2:in:loss 1%", 2, true, "loss 1%"}, Case{"out:x", {}, false, "x"},
                        Case{"1:2:x", 1, {}, "2:x"}, Case{"no:x", {}, {}, "no:x"}, Case{":x", {}, {}, ":x"}}) {
    std::string text = c.text;
    std::optional<unsigned> port;
    std::optional<bool> in;
    take_target(text, port, in);
    EXPECT_EQ(port, c.port) << c.text;
    EXPECT_EQ(in, c.in) << c.text;
    EXPECT_EQ(text, c.rest) << c.text;
  }
}

TEST(SwitchOptions, FaultsLeaveUnlessTheySayThatTheyComeIn) {
  ImpairOption impair;
  EXPECT_EQ(parse_impair_option("3:drop 2nd data", impair), "");
  EXPECT_EQ(impair.port, 3u);
  EXPECT_FALSE(impair.in);
  EXPECT_EQ(impair.text, "drop 2nd data");
  EXPECT_EQ(parse_impair_option("in:loss 1%", impair), "");
  EXPECT_TRUE(impair.in);
  EXPECT_NE(parse_impair_option("loose 1%", impair), "");
  EXPECT_NE(parse_impair_option("", impair), "");
  EXPECT_NE(parse_impair_option("in:# nothing", impair), "");
}

TEST(SwitchOptions, Priorities) {
  uint8_t mask = 0;
  EXPECT_EQ(parse_priorities("3", mask), "");
  EXPECT_EQ(mask, 1 << 3);
  EXPECT_EQ(parse_priorities("0,4,7", mask), "");
  EXPECT_EQ(mask, 1 | 1 << 4 | 1 << 7);
  for (const char* text : {"8", "3,", ",3", "33", "a", "3 4"}) EXPECT_NE(parse_priorities(text, mask), "") << text;
}

TEST(SwitchOptions, OfSeveralRatesThatFitAPortTheLastCounts) {
  Options options;
  EXPECT_EQ(rate_of(options, 0), 0u);
  for (const char* text : {"1:500M", "1G", "2:2G", "2:3G"}) {
    EXPECT_EQ(parse_rate_option(text, options.rates.emplace_back()), "");
  }
  EXPECT_EQ(rate_of(options, 0), 1'000'000'000u);
  EXPECT_EQ(rate_of(options, 1), 1'000'000'000u) << "what is said of all is said of each";
  EXPECT_EQ(rate_of(options, 2), 3'000'000'000u);
}

TEST(SwitchOptions, PortsThatAreNotThere) {
  Options options;
  options.rates.push_back({3, 1000});
  EXPECT_EQ(check_targets(options, 4), "");
  EXPECT_NE(check_targets(options, 3), "");
  options.rates = {{std::nullopt, 1000}};
  EXPECT_EQ(check_targets(options, 2), "");
  options.impairments.push_back({2, true, "loss 1%"});
  EXPECT_NE(check_targets(options, 2), "");
}

}  // namespace
}  // namespace uroce::netswitch
