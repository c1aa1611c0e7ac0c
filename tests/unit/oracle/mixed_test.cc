// Mixed operations over cables of every kind, a few seeds each. UROCE_SEED moves them all; the failure text has the
// command that repeats one run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "oracle/options.h"
#include "sanitized.h"

namespace uroce::oracle {
namespace {

uint64_t first_seed() {
  const char* text = std::getenv("UROCE_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 1000;
}

struct Cable {
  const char* name;
  fabric::ImpairmentConfig impairments;
};

constexpr Cable kCables[] = {
    {"Clean", {}},
    {"Lossy", {.loss = 0.01}},
    {"VeryLossy", {.loss = 0.05}},
    {"Reordering", {.reorder = 0.05}},
    {"Duplicating", {.duplicate = 0.1, .reorder_span = microseconds(200)}},
    {"Corrupting", {.corrupt = 0.02}},
    {"Everything", {.loss = 0.01, .corrupt = 0.01, .duplicate = 0.02, .reorder = 0.02}},
    {"FarBehind", {.duplicate = 0.02, .reorder = 0.01, .reorder_span = microseconds(1500)}},
};

class Mixed : public testing::TestWithParam<std::tuple<QpType, Cable>> {
 protected:
  void run(MixedOptions options, unsigned seeds) {
    options.type = std::get<0>(GetParam());
    options.impairments = std::get<1>(GetParam()).impairments;
    MixedReport report;
    for (unsigned n = 0; n < seeds; n++) {
      options.seed = first_seed() + n;
      report = run_mixed(options);
      ASSERT_EQ(report.failure, "") << "repeat with: " << options.command();
      ASSERT_GE(report.ops, options.ops / 2);
    }
  }
};

std::string name_of(const testing::TestParamInfo<std::tuple<QpType, Cable>>& run) {
  const QpType type = std::get<0>(run.param);
  return std::string(type == QpType::kRc ? "Rc" : type == QpType::kUc ? "Uc" : "Ud") + std::get<1>(run.param).name;
}

INSTANTIATE_TEST_SUITE_P(Cables, Mixed,
                         testing::Combine(testing::Values(QpType::kRc, QpType::kUc, QpType::kUd),
                                          testing::ValuesIn(kCables)),
                         name_of);

TEST_P(Mixed, EveryByteAndEveryCompletion) { run({.ops = some_of(uint64_t{12'000})}, 3); }

/// Few bytes in many messages: queues, numbers and windows are what is under test.
TEST_P(Mixed, SmallMessages) {
  run({.ops = some_of(uint64_t{60'000}), .qps = 2, .max_bytes = 8192, .small_bytes = 64}, 2);
}

TEST_P(Mixed, EachMtu) {
  for (const uint32_t mtu : {256u, 512u, 1024u, 2048u, 4096u}) {
    run({.ops = some_of(uint64_t{3'000}), .mtu = mtu, .qps = 2}, 1);
  }
}

/// All faults that there are, drawn: see LongMixed.ManySeeds for more of them.
TEST(MixedFaults, AHundredSeeds) {
  uint32_t faults = 0;
  uint64_t reconnects = 0;
  for (uint64_t n = 0; n < 100; n++) {
    MixedOptions options = draw_mixed(first_seed() + n);
    options.ops = some_of(uint64_t{1'000});
    options.max_bytes = 32 * 1024;
    const MixedReport report = run_mixed(options);
    ASSERT_EQ(report.failure, "") << "repeat with: " << options.command();
    faults |= options.faults;
    reconnects += report.reconnects;
  }
  EXPECT_EQ(faults, bit(Fault::kCount) - 1) << "not every fault was drawn";
  EXPECT_GT(reconnects, 0u);
}

TEST(MixedFaults, LeavingOneOutChangesNoOther) {
  for (uint64_t seed = 1; seed <= 200; seed++) {
    const MixedOptions whole = draw_mixed(seed);
    for (unsigned i = 0; i < static_cast<unsigned>(Fault::kCount); i++) {
      const MixedOptions part = draw_mixed(seed, 1u << i);
      EXPECT_EQ(part.faults, whole.faults & ~(1u << i));
      if (i != static_cast<unsigned>(Fault::kBurst)) {
        EXPECT_EQ(part.impairments.burst.to_bad, whole.impairments.burst.to_bad);
      }
      if (i != static_cast<unsigned>(Fault::kJitter)) {
        EXPECT_EQ(part.impairments.jitter.ns, whole.impairments.jitter.ns);
      }
      EXPECT_EQ(part.recovery_a, whole.recovery_a);
    }
    uint32_t bits = 0;
    EXPECT_TRUE(parse_faults("loss,burst,restart", bits));
    EXPECT_EQ(bits, bit(Fault::kLoss) | bit(Fault::kBurst) | bit(Fault::kRestart));
    EXPECT_FALSE(parse_faults("loss,bursts", bits));
  }
}

struct Recovery {
  const char* name;
  LossRecovery a;
  LossRecovery b;
};

constexpr Recovery kRecoveries[] = {
    {"Selective", LossRecovery::kAuto, LossRecovery::kAuto},
    {"SelectiveFromTheFirstPacket", LossRecovery::kSelective, LossRecovery::kSelective},
    {"SelectiveWithAStranger", LossRecovery::kAuto, LossRecovery::kGoBackN},
};

/// Reliable connections that recover by selective repeat, with a peer that does too or does not.
class MixedRecovery : public testing::TestWithParam<std::tuple<Recovery, Cable>> {
 protected:
  MixedReport run(MixedOptions options, unsigned seeds) {
    options.recovery_a = std::get<0>(GetParam()).a;
    options.recovery_b = std::get<0>(GetParam()).b;
    options.impairments = std::get<1>(GetParam()).impairments;
    MixedReport report;
    for (unsigned n = 0; n < seeds; n++) {
      options.seed = first_seed() + n;
      report = run_mixed(options);
      EXPECT_EQ(report.failure, "") << "repeat with: " << options.command();
      if (!report.failure.empty()) break;
      const bool strangers = options.recovery_b == LossRecovery::kGoBackN;
      const bool loses = options.impairments.loss != 0 || options.impairments.corrupt != 0;
      if (strangers || loses) {
        EXPECT_EQ(report.sacks == 0, strangers) << "repeat with: " << options.command();
      }
    }
    return report;
  }
};

INSTANTIATE_TEST_SUITE_P(Cables, MixedRecovery,
                         testing::Combine(testing::ValuesIn(kRecoveries), testing::ValuesIn(kCables)),
                         [](const auto& run) {
                           return std::string(std::get<0>(run.param).name) + std::get<1>(run.param).name;
                         });

TEST_P(MixedRecovery, EveryByteAndEveryCompletion) { run({.ops = some_of(uint64_t{8'000})}, 4); }

TEST_P(MixedRecovery, SmallMessages) {
  run({.ops = some_of(uint64_t{30'000}), .qps = 2, .max_bytes = 8192, .small_bytes = 64}, 1);
}

}  // namespace
}  // namespace uroce::oracle
