// Connections that grow old: courses of many rounds on the same engines, with all that may befall them, and what they
// must have been through. UROCE_SEED moves the seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "sanitized.h"
#include "verbs_model/generate.h"
#include "verbs_model/run.h"

namespace uroce::model {
namespace {

constexpr uint32_t kRounds = 50;

uint64_t first_course() {
  const char* text = std::getenv("UROCE_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 1;
}

TEST(Courses, AgreeWithTheModel) {
  const auto count = some_of(uint64_t{650});
  Totals totals;
  for (uint64_t seed = first_course(); seed < first_course() + count; seed++) {
    ASSERT_EQ(run_course({.seed = seed, .rounds = kRounds}, Rules{}, &totals), "")
        << "repeat with: uroce-model --seeds " << seed << " --rounds " << kRounds;
  }
  // Work completes, most connections survive, and some have to be renewed.
  EXPECT_GT(totals.completions, 20 * kRounds * count);
  EXPECT_GT(totals.kept, totals.renewed);
  EXPECT_GT(totals.renewed, count);
  EXPECT_GT(totals.retransmits, count);
}

bool all_recover(const Program& program, LossRecovery recovery) {
  return std::all_of(program.qps.begin(), program.qps.end(),
                     [recovery](const QueuePair& qp) { return qp.recovery == recovery; });
}

/// Only engines with selective repeat send selective ACKs, and do so when frames are lost: also those that must first
/// find out whether the peer has it.
TEST(Courses, SelectiveAcksAreSentWhereTheyAreUnderstood) {
  constexpr LossRecovery kRecoveries[] = {LossRecovery::kGoBackN, LossRecovery::kAuto, LossRecovery::kSelective};
  for (const LossRecovery recovery : kRecoveries) {
    Totals totals;
    const bool plain = recovery == LossRecovery::kGoBackN;
    for (uint64_t seed = first_course(); totals.programs < 20 * kRounds; seed++) {
      const Program program = generate_round(seed, 1);
      const bool loses = std::any_of(program.faults.begin(), program.faults.end(),
                                     [](const Fault& fault) { return fault.text.starts_with("loss"); });
      if (!all_recover(program, recovery) || !(plain || loses)) continue;
      ASSERT_EQ(run_course({.seed = seed, .rounds = kRounds}, Rules{}, &totals), "") << "seed " << seed;
    }
    SCOPED_TRACE(static_cast<unsigned>(recovery));
    if (plain) {
      EXPECT_EQ(totals.sacks, 0u);
    } else {
      EXPECT_GT(totals.sacks, 20u);
    }
  }
}

/// Objects and cables depend on the seed only; the work differs from round to round.
TEST(Courses, HaveRoundsOfTheSameObjects) {
  for (uint64_t seed = 1; seed <= 100; seed++) {
    const Program first = generate_round(seed, 1);
    const Program second = generate_round(seed, 2);
    EXPECT_EQ(first, generate_round(seed, 1));
    EXPECT_EQ(first.endpoints, second.endpoints);
    EXPECT_EQ(first.qps, second.qps);
    EXPECT_EQ(first.faults, second.faults);
    EXPECT_NE(first.steps, second.steps);
  }
}

TEST(Courses, FindAPlantedMistake) {
  std::string failure;
  for (uint64_t seed = first_course(); failure.empty() && seed < first_course() + 100; seed++) {
    failure = run_course({.seed = seed, .rounds = 2}, Rules{.planted_mistake = true});
  }
  EXPECT_NE(failure.find("opcode"), std::string::npos) << failure;
}

/// The engine must notice the attacker's packets.
TEST(Spoofer, IsHeardAndChangesNothing) {
  Program program;
  for (unsigned i = 0; i < 8; i++) {
    program.steps.push_back({.what = Do::kPost, .opcode = WrOpcode::kRdmaWrite, .sges = {{.length = 3000}}});
    for (const uint8_t qp : {uint8_t{0}, uint8_t{1}}) {
      program.steps.push_back({.what = Do::kSpoof, .qp = qp, .count = 200});
      program.steps.push_back({.what = Do::kRun, .count = 1000});
    }
  }
  Memory memory(2);
  const std::unique_ptr<Machine> machine = engines(program, memory);
  // Each of these makes a gap that costs a retry at the worst time, so there are no more of them than retries.
  EXPECT_EQ(run_on(program, Rules{}, *machine, memory), "");
  const Counters& counters = *machine->counters(1);
  EXPECT_GT(counters.rx_packets, 1000u);
  EXPECT_GT(counters.out_of_sequence, 100u) << "a request with a PSN from ahead is a gap";
  EXPECT_GT(counters.duplicate_request, 100u);
  EXPECT_GT(counters.sent_naks, 0u);
}

}  // namespace
}  // namespace uroce::model
