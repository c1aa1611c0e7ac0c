#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "host/endpoint_config.h"
#include "host/log_level.h"

namespace uroce {
namespace {

constexpr const char* kVariables[] = {
    "UROCE_PORT",    "UROCE_ADDR",     "UROCE_EAL",           "UROCE_PCAP",   "UROCE_MTU",
    "UROCE_MAX_QPS", "UROCE_PROGRESS", "UROCE_HUGEPAGES",     "UROCE_CC",     "UROCE_CC_PARAM",
    "UROCE_TCLASS",  "UROCE_PFC",      "UROCE_LOSS_RECOVERY", "UROCE_FAULTS", "UROCE_DIRECT_COPY"};

class Config : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kVariables) unsetenv(name);
  }
  void TearDown() override { SetUp(); }

  std::string read() {
    config = EndpointConfig{};
    std::string error;
    const bool good = endpoint_config_from_environment(config, error);
    EXPECT_EQ(good, error.empty());
    return error;
  }
  EndpointConfig config;
};

TEST_F(Config, NothingSetIsAllDefaults) {
  EXPECT_EQ(read(), "");
  EXPECT_EQ(config.port, "");
  EXPECT_TRUE(config.addresses.empty());
  EXPECT_EQ(config.progress, Progress::kAuto);
  EXPECT_EQ(config.hugepages, Hugepages::kAuto);
  EXPECT_EQ(config.loss_recovery, LossRecovery::kGoBackN);
  EXPECT_EQ(config.mtu, 0u);
  EXPECT_EQ(config.congestion.algorithm, CongestionAlgorithm::kNone);
  EXPECT_TRUE(config.faults.empty());
}

TEST_F(Config, EverySetting) {
  setenv("UROCE_PORT", "shmlan:x", 1);
  setenv("UROCE_ADDR", "10.0.0.1/8, fd00::1/64@100", 1);
  setenv("UROCE_EAL", "-m 128  --no-telemetry", 1);
  setenv("UROCE_PCAP", "/tmp/x.pcapng", 1);
  setenv("UROCE_MTU", "1500", 1);
  setenv("UROCE_PROGRESS", "thread", 1);
  setenv("UROCE_HUGEPAGES", "no", 1);
  setenv("UROCE_CC", "dcqcn", 1);
  setenv("UROCE_TCLASS", "0x60", 1);
  setenv("UROCE_PFC", "3,4", 1);
  setenv("UROCE_CC_PARAM", "rpg_ai_rate=7 has_win=1", 1);
  setenv("UROCE_LOSS_RECOVERY", "auto", 1);
  setenv("UROCE_FAULTS", "loss 1%; rate 1G; in: drop 2nd ack", 1);
  EXPECT_EQ(read(), "");
  EXPECT_EQ(config.port, "shmlan:x");
  ASSERT_EQ(config.addresses.size(), 2u);
  EXPECT_EQ(to_string(config.addresses[0]), "10.0.0.1/8");
  EXPECT_EQ(to_string(config.addresses[1]), "fd00::1/64@100");
  EXPECT_EQ(config.eal_args, (std::vector<std::string>{"-m", "128", "--no-telemetry"}));
  EXPECT_EQ(config.pcap_file, "/tmp/x.pcapng");
  EXPECT_EQ(config.mtu, 1500u);
  EXPECT_EQ(config.progress, Progress::kThread);
  EXPECT_EQ(config.hugepages, Hugepages::kNo);
  EXPECT_EQ(config.congestion.algorithm, CongestionAlgorithm::kDcqcn);
  EXPECT_EQ(config.congestion.dcqcn.rpg_ai_rate, 7u);
  EXPECT_TRUE(config.congestion.has_win);
  EXPECT_EQ(config.traffic_class, 0x60);
  EXPECT_EQ(config.lossless, 0b11000);
  EXPECT_EQ(config.loss_recovery, LossRecovery::kAuto);
  EXPECT_EQ(config.faults.out.loss, 0.01);
  EXPECT_EQ(config.faults.bits_per_second, 1'000'000'000u);
  EXPECT_EQ(config.faults.in.rules.size(), 1u);
}

/// Sets `name` to each word and compares `member` with its value.
template <typename T>
void expect_words(EndpointConfig& config, const char* name, T EndpointConfig::*member,
                  const std::vector<std::pair<const char*, T>>& words) {
  for (const auto& [word, value] : words) {
    setenv(name, word, 1);
    config = EndpointConfig{};
    std::string error;
    EXPECT_TRUE(endpoint_config_from_environment(config, error)) << error;
    EXPECT_EQ(config.*member, value) << name << "=" << word;
    unsetenv(name);
  }
}

TEST_F(Config, EveryWordOfASetting) {
  expect_words(config, "UROCE_PROGRESS", &EndpointConfig::progress,
               {{"auto", Progress::kAuto}, {"inline", Progress::kInline}, {"thread", Progress::kThread}});
  expect_words(config, "UROCE_HUGEPAGES", &EndpointConfig::hugepages,
               {{"auto", Hugepages::kAuto}, {"yes", Hugepages::kYes}, {"no", Hugepages::kNo}});
  expect_words(
      config, "UROCE_LOSS_RECOVERY", &EndpointConfig::loss_recovery,
      {{"auto", LossRecovery::kAuto}, {"go-back-n", LossRecovery::kGoBackN}, {"selective", LossRecovery::kSelective}});
  expect_words(config, "UROCE_DIRECT_COPY", &EndpointConfig::direct_copy,
               {{"auto", DirectCopying::kAuto}, {"off", DirectCopying::kOff}});
  expect_words(config, "UROCE_MTU", &EndpointConfig::mtu, {{"576", 576u}, {"9216", 9216u}});
  expect_words(config, "UROCE_MAX_QPS", &EndpointConfig::max_qps, {{"1", 1u}, {"131072", 131072u}});
}

TEST_F(Config, MistakesAreNamed) {
  const std::pair<const char*, const char*> mistakes[] = {{"UROCE_PORT", "net_nothing0"},
                                                          {"UROCE_ADDR", "10.0.0.300/24"},
                                                          {"UROCE_ADDR", "10.0.0.1/33"},
                                                          {"UROCE_ADDR", "10.0.0.1@4095"},
                                                          {"UROCE_MAX_QPS", "0"},
                                                          {"UROCE_MAX_QPS", "131073"},
                                                          {"UROCE_MTU", "575"},
                                                          {"UROCE_MTU", "9217"},
                                                          {"UROCE_MTU", "1500x"},
                                                          {"UROCE_MTU", "-1"},
                                                          {"UROCE_PROGRESS", "sometimes"},
                                                          {"UROCE_LOSS_RECOVERY", "sack"},
                                                          {"UROCE_HUGEPAGES", "1"},
                                                          {"UROCE_DIRECT_COPY", "yes"},
                                                          {"UROCE_CC", "cubic"},
                                                          {"UROCE_FAULTS", "loss=1%"},
                                                          {"UROCE_FAULTS", "in: rate 1G"},
                                                          {"UROCE_TCLASS", "256"},
                                                          {"UROCE_TCLASS", "-1"},
                                                          {"UROCE_PFC", "8"},
                                                          {"UROCE_PFC", "high"},
                                                          {"UROCE_CC_PARAM", "rpg_ai_speed"}};
  for (const auto& [name, value] : mistakes) {
    SetUp();
    setenv(name, value, 1);
    const std::string error = read();
    EXPECT_NE(error.find(std::string(name) == "UROCE_ADDR" ? std::string(value) : "'" + std::string(value) + "'"),
              std::string::npos)
        << name << "=" << value << ": " << error;
  }
}

TEST_F(Config, ACongestionParameterOutOfRange) {
  setenv("UROCE_CC_PARAM", "rpg_hai_rate=5 rpg_ai_rate=0", 1);
  EXPECT_EQ(read(), "UROCE_CC_PARAM: rpg_ai_rate is '0': it is a whole number from 1 to 4000000");
}

TEST(LogLevels, Names) {
  LogLevel level = LogLevel::kWarning;
  const std::pair<const char*, LogLevel> names[] = {{"error", LogLevel::kError},
                                                    {"warning", LogLevel::kWarning},
                                                    {"info", LogLevel::kInfo},
                                                    {"debug", LogLevel::kDebug}};
  for (const auto& [name, wanted] : names) {
    EXPECT_TRUE(parse_log_level(name, level)) << name;
    EXPECT_EQ(level, wanted) << name;
  }
  EXPECT_FALSE(parse_log_level("loud", level));
  EXPECT_EQ(level, LogLevel::kDebug);
}

}  // namespace
}  // namespace uroce
