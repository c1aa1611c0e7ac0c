// Fifty thousand random programs (a quarter under a sanitizer), and proof that a wrong one would be found, made
// short, and printed so that it can be pasted in here. UROCE_SEED moves the seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>

#include "sanitized.h"
#include "verbs_model/campaign.h"
#include "verbs_model/engine_machine.h"

namespace uroce::model {
namespace {

uint64_t first_seed() {
  const char* text = std::getenv("UROCE_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 1;
}

std::string on_engines(const Program& program, Totals* totals) { return run_on_engines(program, Rules{}, totals); }

TEST(RandomPrograms, AgreeWithTheModel) {
  const auto count = some_of(uint64_t{50'000});
  const Outcome outcome = run_campaign({.first = first_seed(), .last = first_seed() + count - 1}, on_engines);
  EXPECT_EQ(outcome.text(), "");
  EXPECT_EQ(outcome.totals.programs, count);
  // Requests complete, with success and with errors.
  EXPECT_GT(outcome.totals.completions, 5 * count);
  EXPECT_GT(outcome.totals.errors, count);
  EXPECT_GT(outcome.totals.completions - outcome.totals.errors, 2 * count);
}

/// The model is made wrong. The failure needs only a receive and a WRITE with immediate data.
TEST(Shrinker, MakesAPlantedMistakeShort) {
  const Trial wrong = [](const Program& program, Totals* totals) {
    return run_on_engines(program, Rules{.planted_mistake = true}, totals);
  };
  const Outcome outcome = run_campaign({.first = first_seed(), .last = first_seed() + 2000}, wrong);
  ASSERT_FALSE(outcome.good);
  EXPECT_EQ(outcome.program.steps.size(), 2u) << outcome.text();
  EXPECT_EQ(outcome.program.faults.size(), 0u) << outcome.text();
  for (const Step& step : outcome.program.steps) {
    EXPECT_TRUE(step.what == Do::kReceive || step.opcode == WrOpcode::kRdmaWriteWithImm) << outcome.text();
  }
  EXPECT_NE(outcome.text().find("TEST(Found, Seed"), std::string::npos);
  EXPECT_EQ(on_engines(outcome.program, nullptr), "") << "the engine is right";
}

std::string without_blanks(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  // A trailing comma does not matter.
  for (size_t at = 0; (at = text.find(",}", at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

// Pasted from the output, as the text of a failure asks for.
#define PASTED                                                                                                        \
  const Program program{.seed = 1,                                                                                    \
                        .endpoints = {{}, {.cq_entries = {3, 256}, .srq_wrs = 2}},                                    \
                        .qps = {{.endpoint = 0, .retries = 3}, {.endpoint = 1, .srq = true, .access = kRemoteWrite}}, \
                        .faults = {{1, "drop 2 any"}},                                                                \
                        .steps = {                                                                                    \
                            {.what = Do::kReceive, .qp = 1, .sges = {{.region = Region::kLanding, .length = 8}}},     \
                            {.what = Do::kPost,                                                                       \
                             .opcode = WrOpcode::kRdmaWriteWithImm,                                                   \
                             .flags = kSendSignaled | kSendInline,                                                    \
                             .sges = {{.length = 3}},                                                                 \
                             .offset = 16,                                                                            \
                             .imm = 0x12345678},                                                                      \
                            {.what = Do::kRun, .count = 100},                                                         \
                        }};
#define TEXT_OF(...) #__VA_ARGS__
#define EXPANDED(...) TEXT_OF(__VA_ARGS__)

TEST(Printer, PrintsWhatCompiles) {
  PASTED
  EXPECT_EQ(without_blanks(to_cpp(program)), without_blanks(EXPANDED(PASTED)));
  EXPECT_EQ(run_on_engines(program, Rules{}), "");
  EXPECT_NE(run_on_engines(program, Rules{.planted_mistake = true}), "");
}

/// It moved from SQE to RTS before its error was polled: requests posted after the poll are executed.
TEST(Model, KnowsThatAQueueMayHaveLeftItsErrorBehind) {
  const Program program{.qps = {{.endpoint = 0, .type = QpType::kUc}, {.endpoint = 1, .type = QpType::kUc}},
                        .steps = {
                            {.what = Do::kPost, .opcode = WrOpcode::kLocalInv},
                            {.what = Do::kSettle},
                            {.what = Do::kModify, .state = QpState::kRts},
                            {.what = Do::kPoll, .count = 64},
                            {.what = Do::kPost, .opcode = WrOpcode::kRdmaWrite, .sges = {{.length = 1}}},
                        }};
  EXPECT_EQ(run_on_engines(program, Rules{}), "");
}

/// RESET removed the receiver's completion; its later ERR changes nothing.
TEST(Model, KnowsThatResetTookAMessageAway) {
  const Program program{.endpoints = {{}},
                        .qps = {{.endpoint = 0}, {.endpoint = 0}},
                        .steps = {
                            {.what = Do::kReceive, .qp = 1},
                            {.what = Do::kPost, .opcode = WrOpcode::kSendWithImm, .flags = kSendSignaled},
                            {.what = Do::kSettle},
                            {.what = Do::kModify, .qp = 1, .state = QpState::kReset},
                            {.what = Do::kModify, .qp = 1, .state = QpState::kErr},
                            {.what = Do::kPoll, .count = 64},
                            {.what = Do::kModify, .state = QpState::kReset},
                        }};
  EXPECT_EQ(run_on_engines(program, Rules{}), "");
}

TEST(Campaign, FindsHangsAndCrashes) {
  const Trial hangs = [](const Program&, Totals*) {
    for (volatile bool forever = true; forever;) {
    }
    return std::string();
  };
  EXPECT_EQ(try_apart(generate(1), hangs, 20), "hangs: a call does not return");
  const Trial dies = [](const Program&, Totals*) {
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
    return std::string();
  };
  EXPECT_EQ(try_apart(generate(1), dies), "dies by signal 11");
  // The shrinker does not depend on the kind of failure.
  const Trial third = [](const Program& program, Totals* totals) {
    if (program.seed == 3) std::raise(SIGKILL);
    return run_on_engines(program, Rules{}, totals);
  };
  const Outcome outcome = run_campaign({.first = 1, .last = 5}, third);
  EXPECT_EQ(outcome.seed, 3u);
  EXPECT_EQ(outcome.program.steps.size(), 0u);
}

TEST(Generator, DrawsEverything) {
  uint32_t opcodes = 0;
  uint32_t steps = 0;
  uint32_t types = 0;
  uint32_t recoveries = 0;
  uint32_t endpoints = 0;
  bool faults = false, huge = false, none = false, wrong_lkey = false, wrong_rkey = false, tiny = false, shared = false;
  for (uint64_t seed = 1; seed <= 1500; seed++) {
    const Program program = generate(seed);
    EXPECT_EQ(program, generate(seed));
    endpoints |= 1u << program.endpoints.size();
    faults |= !program.faults.empty();
    for (const QueuePair& qp : program.qps) {
      types |= 1u << static_cast<unsigned>(qp.type);
      recoveries |= 1u << static_cast<unsigned>(qp.recovery);
      tiny |= qp.send_wrs == 1;
      shared |= qp.srq;
    }
    for (const Step& step : program.steps) {
      steps |= 1u << static_cast<unsigned>(step.what);
      if (step.what != Do::kPost) continue;
      opcodes |= 1u << static_cast<unsigned>(step.opcode);
      wrong_rkey |= step.wrong_rkey;
      none |= step.sges.empty();
      for (const Element& element : step.sges) {
        huge |= element.length > 1u << 30;
        wrong_lkey |= element.wrong_key;
      }
    }
  }
  EXPECT_EQ(opcodes, (1u << 10) - 1 + (1u << 14) + (1u << 15));
  EXPECT_EQ(steps, (1u << 17) - 1);
  EXPECT_EQ(types, 0b11100u);
  EXPECT_EQ(recoveries, 0b111u);
  EXPECT_EQ(endpoints, 0b11110u);
  EXPECT_TRUE(faults && huge && none && wrong_lkey && wrong_rkey && tiny && shared);
}

/// PSNs begin near their maximum, so that they wrap, in one direction at least.
TEST(Generator, LetsNumbersWrap) {
  constexpr uint32_t kAboutToWrap = (1u << 24) - 0x100;
  unsigned pairs = 0;
  unsigned about_to[2] = {};
  Memory memory(4);
  for (uint64_t seed = 1; seed <= 20; seed++) {
    const Program program = generate(seed);
    const EngineMachine machine(program, memory);
    for (unsigned qp = 0; qp < program.qps.size(); qp++) {
      if (program.qps[qp].type != QpType::kRc) continue;  // the windows of others tell nothing
      pairs += qp & 1;
      about_to[qp & 1] += machine.psn(qp).value() >= kAboutToWrap ? 1 : 0;
    }
  }
  EXPECT_GT(pairs, 10u);
  EXPECT_EQ(about_to[0], pairs);
  EXPECT_GT(about_to[1], pairs / 4);
}

/// With troubles, the same steps are drawn as without: troubles are inserted between them.
std::vector<Step> without_moments(std::vector<Step> steps) {
  std::erase_if(steps, [](const Step& step) { return step.what >= Do::kRun; });
  return steps;
}

/// Whether all of `part` is in `whole`, in the same order.
template <typename T>
bool are_some_of(const std::vector<T>& some, const std::vector<T>& all) {
  size_t found = 0;
  for (const T& each : all) found += found < some.size() && each == some[found] ? 1 : 0;
  return found == some.size();
}

/// The endpoint, changed as the trouble changes it.
Endpoint with_trouble(Endpoint endpoint, Trouble trouble, const Endpoint& whole) {
  if (trouble == Trouble::kPause) endpoint.obeys_pauses = whole.obeys_pauses;
  if (trouble == Trouble::kMarks) endpoint.congestion = whole.congestion;
  if (trouble == Trouble::kLate) endpoint.turn_ns = whole.turn_ns;
  if (trouble == Trouble::kQueue) endpoint.rx_frames = whole.rx_frames;
  return endpoint;
}

/// Expects `part` to be `whole` without this trouble.
void expect_only_left_out(const Program& part, const Program& whole, Trouble trouble) {
  const bool of_cable = trouble <= Trouble::kPause || trouble == Trouble::kMarks;
  const bool of_moment = trouble >= Trouble::kPort;
  EXPECT_TRUE(are_some_of(part.faults, whole.faults));
  EXPECT_EQ(part.faults.size() + (of_cable ? 1 : 0), whole.faults.size());
  EXPECT_TRUE(are_some_of(part.steps, whole.steps));
  EXPECT_TRUE(of_moment || part.steps == whole.steps);
  EXPECT_EQ(part.qps, whole.qps);
  for (size_t i = 0; i < whole.endpoints.size(); i++)
    EXPECT_EQ(with_trouble(part.endpoints[i], trouble, whole.endpoints[i]), whole.endpoints[i]);
}

TEST(Troubles, AllAreDrawnAndLeavingOneOutChangesNoOther) {
  constexpr uint32_t kAll = bit(Trouble::kCount) - 1;
  uint32_t all = 0;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    const Program calm = generate(seed, {.without = kAll});
    Program whole = calm;
    const uint32_t drawn = draw_troubles(whole, seed, 0);
    all |= drawn;
    EXPECT_EQ(without_moments(whole.steps), without_moments(calm.steps));
    for (unsigned i = 0; i < static_cast<unsigned>(Trouble::kCount); i++) {
      Program part = calm;
      EXPECT_EQ(draw_troubles(part, seed, 1u << i), drawn & ~(1u << i));
      SCOPED_TRACE("seed " + std::to_string(seed) + " without " + trouble_list(1u << i));
      if ((drawn >> i & 1) == 0) {
        EXPECT_EQ(part, whole);
      } else {
        expect_only_left_out(part, whole, static_cast<Trouble>(i));
      }
    }
  }
  EXPECT_EQ(all, kAll);
}

TEST(Troubles, HaveNames) {
  uint32_t bits = 0;
  EXPECT_TRUE(parse_troubles("loss,burst,vanish", bits));
  EXPECT_EQ(bits, bit(Trouble::kLoss) | bit(Trouble::kBurst) | bit(Trouble::kVanish));
  EXPECT_EQ(trouble_list(bits), "loss,burst,vanish");
  EXPECT_FALSE(parse_troubles("loss,bursts", bits));
}

TEST(Generator, LeavesOutWhatAMachineCannotDo) {
  const auto uses_old_windows = [](uint64_t seed, const Limits& limits) {
    const Program program = generate(seed, limits);
    return std::any_of(program.steps.begin(), program.steps.end(),
                       [](const Step& step) { return step.window == Region::kOldWindow; });
  };
  unsigned faulty = 0;
  unsigned old = 0;
  for (uint64_t seed = 1; seed <= 500; seed++) {
    faulty += generate(seed, {}).faults.empty() ? 0 : 1;
    EXPECT_TRUE(generate(seed, {.faults = false}).faults.empty());
    old += uses_old_windows(seed, {}) ? 1 : 0;
    EXPECT_FALSE(uses_old_windows(seed, {.old_windows = false}));
  }
  EXPECT_GT(faulty, 0u);
  EXPECT_GT(old, 0u);
}

}  // namespace
}  // namespace uroce::model
