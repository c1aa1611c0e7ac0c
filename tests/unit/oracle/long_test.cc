// Millions of mixed operations. The same checks as mixed_test.cc, more seeds and longer runs.
#include <gtest/gtest.h>

#include <cstdlib>

#include "oracle/options.h"

namespace uroce::oracle {
namespace {

uint64_t first_seed() {
  const char* text = std::getenv("UROCE_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 1'000'000;
}

void run(const MixedOptions& options) {
  const MixedReport report = run_mixed(options);
  ASSERT_EQ(report.failure, "") << "repeat with: " << options.command();
}

TEST(LongMixed, ReliableConnections) {
  for (uint64_t n = 0; n < 4 && !HasFatalFailure(); n++) {
    MixedOptions options = draw_mixed(first_seed() + n);
    options.ops = 100'000;
    run(options);
  }
}

TEST(LongMixed, ManySeeds) {
  for (uint64_t n = 0; n < 500 && !HasFatalFailure(); n++) {
    MixedOptions options = draw_mixed(first_seed() + 10'000 + n);
    options.ops = 1'000;
    options.max_bytes = 32 * 1024;
    run(options);
  }
}

TEST(LongMixed, SelectiveRepeat) {
  for (uint64_t n = 0; n < 250 && !HasFatalFailure(); n++) {
    MixedOptions options = draw_mixed(first_seed() + 30'000 + n);
    options.ops = n % 50 == 0 ? 50'000 : 1'000;
    options.max_bytes = n % 50 == 0 ? 256 * 1024 : 32 * 1024;
    options.impairments.loss *= n % 3 == 0 ? 3 : 1;
    options.recovery_a = n % 5 == 0 ? LossRecovery::kSelective : LossRecovery::kAuto;
    options.recovery_b = n % 5 == 0   ? LossRecovery::kSelective
                         : n % 5 == 1 ? LossRecovery::kGoBackN
                                      : LossRecovery::kAuto;
    run(options);
  }
}

TEST(LongMixed, Unacknowledged) {
  for (uint64_t n = 0; n < 25 && !HasFatalFailure(); n++) {
    MixedOptions options = draw_mixed(first_seed() + n);
    options.ops = 40'000;
    options.type = n % 2 == 0 ? QpType::kUc : QpType::kUd;
    run(options);
  }
}

/// More messages than the 24 bits of a message sequence number, and of a packet sequence number.
TEST(LongMixed, MessageNumbersWrap) {
  MixedOptions options;
  options.seed = first_seed();
  options.qps = 1;
  options.mtu = 1024;
  options.ops = 2 * ((1u << 24) + 100'000);
  options.max_bytes = 4096;
  options.small_bytes = 16;
  options.impairments.loss = 0.0002;
  run(options);
}

}  // namespace
}  // namespace uroce::oracle
