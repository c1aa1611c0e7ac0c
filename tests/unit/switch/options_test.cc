#include "uroce_switch/options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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

/// What the program says of these words; "" when it takes them.
std::string refusal(std::vector<std::string> words, Options& options) {
  words.insert(words.begin(), "uroce-switch");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int code = -1;
  testing::internal::CaptureStderr();
  const bool goes_on = parse_options(static_cast<int>(words.size()), argv.data(), options, code);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.empty(), goes_on) << said;
  EXPECT_EQ(code, goes_on ? -1 : 2);
  return said;
}

std::string refusal(const std::vector<std::string>& words) {
  Options options;
  return refusal(words, options);
}

constexpr char kOnePort[] = "net_af_packet0,iface=a";

// Each with its neighbour that is refused, and with what that is told.
TEST(SwitchCommandLine, WhatIsTakenAndWhatIsNot) {
  const std::string longest(32, 'a');
  struct Case {
    std::vector<std::string> taken, refused;
    const char* says;
  };
  const Case cases[] = {
      {{"--ports", "2"}, {"--ports", "1"}, "more --port"},
      {{"--port", kOnePort, "--port", "shmlan:a"}, {"--port", kOnePort}, "more --port"},
      {{"--ports", "1", "--port", kOnePort}, {"--ports", "0", "--port", kOnePort}, "more --port"},
      {{"--name", "a"}, {"--name", ""}, "1 to 32 letters"},
      {{"--name", "a.b-c_1"}, {"--name", "a/b"}, "1 to 32 letters"},
      {{"--name", longest}, {"--name", longest + "a"}, "1 to 32 letters"},
      {{"--port", kOnePort, "--ports", "2"}, {"--port", "switch:lab", "--ports", "2"}, "into a switch"},
      {{"--rate", "3:1G"}, {"--rate", "4:1G"}, "the last of 4 is 3"},
      {{"--rate", "1K"}, {"--rate", "fast"}, "--rate fast: bits a second"},
      {{"--impair", "3:loss 1%"}, {"--impair", "4:loss 1%"}, "the last of 4 is 3"},
      {{"--impair", "loss 1%"}, {"--impair", "loose 1%"}, "--impair 'loose 1%'"},
      {{"--ecn", "on"}, {"--ecn", "off"}, "--ecn off"},
      {{"--pfc", "7"}, {"--pfc", "8"}, "--pfc 8: priorities"},
      {{"--buffer", "1"}, {"--buffer", "0"}, "--buffer 0: a number of bytes"},
      {{"--buffer", "512K"}, {"--buffer", "much"}, "--buffer much: a number of bytes"},
      {{"--frames", "64"}, {"--frames", "63"}, "--frames"},
      {{"--stats", "1"}, {"--stats", "0"}, "--stats"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(refusal(c.taken), "") << c.taken.back();
    EXPECT_NE(refusal(c.refused).find(c.says), std::string::npos) << c.refused.back() << ": " << refusal(c.refused);
  }
}

TEST(SwitchCommandLine, HasFourPortsUnlessOthersAreGiven) {
  Options none, others, of_eal;
  EXPECT_EQ(refusal({}, none), "");
  EXPECT_EQ(none.ports, 4u);
  EXPECT_EQ(refusal({"--port", kOnePort, "--port", "shmlan:a"}, others), "");
  EXPECT_EQ(others.ports, 0u);
  EXPECT_EQ(others.specs, (std::vector<std::string>{kOnePort, "shmlan:a"}));
  EXPECT_EQ(refusal({"-l", "1", "--", "--busy"}, of_eal), "") << "how many EAL has is not known yet";
  EXPECT_EQ(of_eal.ports, 0u);
  EXPECT_TRUE(of_eal.busy);
  EXPECT_EQ(of_eal.eal_arguments, (std::vector<std::string>{"uroce-switch", "-l", "1"}));
}

TEST(SwitchCommandLine, EachWordReachesItsPlace) {
  Options options;
  EXPECT_EQ(
      refusal({"--name",   "a",    "--rate",   "1G",  "--rate", "2:2G", "--impair", "in:loss 1%", "--pfc",   "3,4",
               "--buffer", "512K", "--frames", "100", "--seed", "7",    "--pcapng", "file",       "--stats", "9"},
              options),
      "");
  EXPECT_EQ(options.name, "a");
  EXPECT_EQ(rate_of(options, 1), 1'000'000'000u);
  EXPECT_EQ(rate_of(options, 2), 2'000'000'000u);
  ASSERT_EQ(options.impairments.size(), 1u);
  EXPECT_TRUE(options.impairments[0].in);
  EXPECT_EQ(options.lossless, 1 << 3 | 1 << 4);
  EXPECT_EQ(options.buffer_bytes, 512'000u);
  EXPECT_EQ(options.frames, 100u);
  EXPECT_EQ(options.seed, 7u);
  EXPECT_EQ(options.pcap_file, "file");
  EXPECT_EQ(options.stats_s, 9u);
  EXPECT_FALSE(options.busy);
  EXPECT_FALSE(options.ecn.has_value());
}

}  // namespace
}  // namespace uroce::netswitch
