// Random verbs programs over libibverbs, judged by the model that judges the engine. See doc/verbs-model.md.
//
// The device is opened in the process that runs the programs, never in the one that waits for it: what belongs to a
// process does not survive its fork.
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "verbs_model/campaign.h"
#include "verbs_model/shim/verbs_machine.h"

namespace {

using namespace uroce::model;

constexpr uint32_t kTrialMs = 5000;  // of CPU time, to open the device and run one program

int usage(int code) {
  std::printf(
      "verbs_model_over_shim [--seeds FIRST..LAST] [--print] [--shrink]\n"
      "Runs one program for each seed on the device that libibverbs shows, and stops at the first that goes wrong.\n"
      "--print shows the programs instead; --shrink makes one that goes wrong short, if it does so again.\n");
  return code;
}

std::string on_verbs(const Program& program, Totals* totals) {
  return run_on_verbs(program, rules_of(program), totals);
}

/// A wrong model must be noticed, or nothing is compared.
std::string find_planted_mistake() {
  const Program program{.steps = {
                            {.what = Do::kReceive, .qp = 1},
                            {.what = Do::kPost, .opcode = uroce::WrOpcode::kRdmaWriteWithImm},
                        }};
  const Trial wrong = [](const Program& p, Totals*) {
    Rules rules = rules_of(p);
    rules.planted_mistake = true;
    return run_on_verbs(p, rules, nullptr);
  };
  if (try_apart(program, on_verbs, kTrialMs) != "") return "a program of two steps goes wrong";
  const std::string found = try_apart(program, wrong, kTrialMs);
  return found.find("opcode") != std::string::npos ? "" : "a mistake in the model is not found: '" + found + "'";
}

/// A run without any work must not pass. In a few programs it may happen that nothing completes.
std::string judge_totals(const Totals& totals, uint64_t count) {
  if (totals.programs != count) return "not all programs were run";
  if (count < 20) return totals.posts != 0 ? "" : "nothing was posted";
  if (totals.posts < 5 * count) return "too little was posted";
  if (totals.errors < count) return "too little went wrong: receives that are left are flushed at the end of each";
  if (totals.completions - totals.errors < 2 * count) return "too little succeeded";
  return "";
}

void show_failure(const Outcome& outcome, bool shrinks) {
  Program program = outcome.program;
  std::string failure = outcome.failure;
  if (shrinks) {
    // A failure that does not occur each time gets three tries at every size.
    const Trial thrice = [](const Program& p, Totals*) {
      std::string last;
      for (int i = 0; i < 3 && last.empty(); i++) last = on_verbs(p, nullptr);
      return last;
    };
    // The device belongs to the process that opens it: to this one, unless the program would end it.
    const bool ends = failure.starts_with("dies") || failure.starts_with("hangs");
    program = shrink(program, thrice, ends ? Place::kApart : Place::kHere);
    const std::string short_failure = ends ? try_apart(program, thrice, kTrialMs) : thrice(program, nullptr);
    if (!short_failure.empty()) failure = short_failure;
  }
  std::printf("seed %" PRIu64 ": %s\n%s", outcome.seed, failure.c_str(), to_cpp(program).c_str());
}

int run(const Campaign& campaign, bool shrinks) {
  const auto begun = std::chrono::steady_clock::now();
  if (const std::string text = find_planted_mistake(); !text.empty()) {
    std::printf("%s\n", text.c_str());
    return 1;
  }
  const Outcome outcome = run_campaign(campaign, on_verbs);
  const Totals& totals = outcome.totals;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  std::printf("seeds %" PRIu64 "..%" PRIu64 ": %" PRIu64 " programs, %" PRIu64 " posts, %" PRIu64
              " completions, %" PRIu64 " of them errors, %.1f s\n",
              campaign.first, campaign.last, totals.programs, totals.posts, totals.completions, totals.errors, seconds);
  if (!outcome.good) {
    show_failure(outcome, shrinks);
    return 1;
  }
  const std::string text = judge_totals(totals, campaign.last - campaign.first + 1);
  if (!text.empty()) std::printf("%s\n", text.c_str());
  return text.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  unsetenv("LD_PRELOAD");  // programs that a sanitizer starts must not use the shim
  Campaign campaign{.first = 1, .last = 100, .limits = limits(), .shrinks = false};
  bool print = false;
  bool shrinks = false;
  for (int i = 1; i < argc; i++) {
    if (std::strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) {
      char* end = nullptr;
      campaign.first = campaign.last = std::strtoull(argv[++i], &end, 0);
      if (std::strncmp(end, "..", 2) == 0) campaign.last = std::strtoull(end + 2, nullptr, 0);
    } else if (std::strcmp(argv[i], "--print") == 0) {
      print = true;
    } else if (std::strcmp(argv[i], "--shrink") == 0) {
      shrinks = true;
    } else {
      return usage(std::strcmp(argv[i], "--help") == 0 ? 0 : 2);
    }
  }
  if (campaign.last < campaign.first) return usage(2);
  if (!print) return run(campaign, shrinks);
  for (uint64_t seed = campaign.first; seed <= campaign.last; seed++) {
    std::printf("%s", to_cpp(generate(seed, campaign.limits)).c_str());
  }
  return 0;
}
