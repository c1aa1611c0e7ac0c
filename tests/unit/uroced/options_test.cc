// Where uroced's options go, and what they say of the memory that a program may set aside.
#include "uroced/options.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "segment/layout.h"

namespace uroce::daemon {
namespace {

constexpr uint64_t kBase = sizeof(segment::BaseMemory);
constexpr uint64_t kLane = sizeof(segment::LaneMemory);

/// Lanes that fit into `bytes`; nothing when that is refused.
std::optional<uint32_t> lanes(uint64_t bytes) {
  std::string words[] = {"uroced", "--port", "net_null0", "--max-memory", std::to_string(bytes)};
  char* argv[std::size(words)];
  for (size_t i = 0; i < std::size(words); i++) argv[i] = words[i].data();
  Options options;
  int code = 0;
  testing::internal::CaptureStderr();
  const bool taken = parse_options(static_cast<int>(std::size(words)), argv, options, code);
  const std::string said = testing::internal::GetCapturedStderr();
  if (taken) return options.config.uplink->lanes_max;
  EXPECT_EQ(code, 2);
  EXPECT_NE(said.find("--max-memory"), std::string::npos) << said;
  const std::string needed = std::to_string(kBase / 1000) + "K for frames, and " + std::to_string(kLane / 1000) + "K";
  EXPECT_NE(said.find(needed), std::string::npos) << said;
  return std::nullopt;
}

TEST(UrocedOptions, MemoryIsForWholeLanesBesideTheBase) {
  EXPECT_EQ(lanes(0), std::nullopt);
  EXPECT_EQ(lanes(kBase), std::nullopt);
  EXPECT_EQ(lanes(kBase + kLane - 1), std::nullopt);
  EXPECT_EQ(lanes(kBase + kLane), 1u);
  EXPECT_EQ(lanes(kBase + 2 * kLane - 1), 1u);
  EXPECT_EQ(lanes(kBase + 2 * kLane), 2u);
  EXPECT_EQ(lanes(kLane << 33), UINT32_MAX) << "more than there are numbers for";
}

/// Each option has a value that no other has.
TEST(UrocedOptions, EachReachesItsPlace) {
  std::string words[] = {"uroced",         "--port",      "net_af_packet0,iface=lo",
                         "--addr",         "10.7.0.1/24", "--addr",
                         "fd07::1/64",     "--segment",   "blue",
                         "--host",         "rack-7",      "--group",
                         "wheel",          "--max-qps",   "77",
                         "--rate",         "10G",         "--metrics",
                         "127.0.0.1:9464", "--busy",      "--while-needed"};
  char* argv[std::size(words)];
  for (size_t i = 0; i < std::size(words); i++) argv[i] = words[i].data();
  Options options;
  int code = 0;
  ASSERT_TRUE(parse_options(static_cast<int>(std::size(words)), argv, options, code));
  EXPECT_EQ(options.config.port, "net_af_packet0,iface=lo");
  EXPECT_EQ(options.config.addresses,
            (std::vector<LocalAddress>{*parse_local_address("10.7.0.1/24"), *parse_local_address("fd07::1/64")}));
  EXPECT_EQ(options.config.uplink->segment, "blue");
  EXPECT_EQ(options.config.uplink->host, "rack-7");
  EXPECT_EQ(options.config.uplink->group, "wheel");
  EXPECT_EQ(options.config.uplink->qps_max, 77u);
  EXPECT_EQ(options.config.uplink->rate, 10'000'000'000u);
  EXPECT_EQ(options.config.uplink->lanes_max, 0u);
  EXPECT_EQ(options.metrics, "127.0.0.1:9464");
  EXPECT_TRUE(options.busy);
  EXPECT_TRUE(options.config.uplink->while_needed);
  EXPECT_FALSE(options.config.eal_running);
  EXPECT_TRUE(options.eal_arguments.empty());
}

TEST(UrocedOptions, WhileNeededNeedsAHost) {
  std::string words[] = {"uroced", "--port", "net_udp0", "--while-needed"};
  char* argv[std::size(words)];
  for (size_t i = 0; i < std::size(words); i++) argv[i] = words[i].data();
  Options options;
  int code = 0;
  testing::internal::CaptureStderr();
  EXPECT_FALSE(parse_options(static_cast<int>(std::size(words)), argv, options, code));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("needs their --host"), std::string::npos);
}

/// Each of these is the one thing that is wrong, and is named.
TEST(UrocedOptions, WhatIsWrongIsNamed) {
  const struct {
    std::vector<std::string> words;
    const char* said;
  } wrong[] = {
      {{}, "which port?"},
      {{"--port", "shmlan"}, "leads out of a segment"},
      {{"--port", "nonsense:"}, "nonsense:"},
      {{"--port", "net_null0", "--addr", "10.0.0.1", "--addr", "10.0.0"}, "10.0.0"},
      {{"--port", "net_null0", "--rate", "fast"}, "--rate fast"},
      {{"--port", "net_null0", "--host", "two words"}, "host 'two words'"},
      {{"--port", "net_null0", "--host", std::string(33, 'h')}, "1 to 32"},
      {{"--port", "net_null0", "--max-qps", "0"}, "--max-qps"},
      {{"-l", "1", "--", "--rate", "fast"}, "--rate fast"},
  };
  for (auto [words, said] : wrong) {
    words.insert(words.begin(), "uroced");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    Options options;
    int code = 0;
    testing::internal::CaptureStderr();
    EXPECT_FALSE(parse_options(static_cast<int>(argv.size()), argv.data(), options, code)) << said;
    EXPECT_EQ(code, 2) << said;
    EXPECT_NE(testing::internal::GetCapturedStderr().find(said), std::string::npos) << said;
  }
}

/// The words before "--" are EAL's, the program's name included.
TEST(UrocedOptions, BehindEalsArgumentsStandItsOwn) {
  std::string words[] = {"uroced", "-l", "3", "--no-huge", "--", "--host", "rack-8"};
  char* argv[std::size(words)];
  for (size_t i = 0; i < std::size(words); i++) argv[i] = words[i].data();
  Options options;
  int code = 0;
  ASSERT_TRUE(parse_options(static_cast<int>(std::size(words)), argv, options, code));
  EXPECT_EQ(options.eal_arguments, (std::vector<std::string>{"uroced", "-l", "3", "--no-huge"}));
  EXPECT_TRUE(options.config.eal_running);
  EXPECT_EQ(options.config.uplink->host, "rack-8");
  EXPECT_FALSE(options.busy);
}

}  // namespace
}  // namespace uroce::daemon
