// uroce-model: random verbs programs on engines in virtual time, judged by the model. See doc/verbs-model.md.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "verbs_model/campaign.h"

namespace {

using namespace uroce::model;

int usage(int code) {
  std::printf(
      "uroce-model [--seeds FIRST..LAST] [--rounds N] [--hours H] [--without TROUBLE,...] [--jobs N] [--print] "
      "[--no-shrink] [--trace]\n"
      "Runs one program for each seed, and stops at the first that goes wrong: it is made short and printed as C++.\n"
      "--rounds: courses of so many programs, one after the other on the same engines, instead.\n"
      "--hours: from FIRST on, as many as there is time for. --without leaves out what befalls hosts and cables, and "
      "changes nothing else:\n  %s\n"
      "--print shows the programs instead; --trace every frame, of the whole program. --jobs: so many processes share "
      "the seeds.\n",
      trouble_list(bit(Trouble::kCount) - 1).c_str());
  return code;
}

const Rules rules;
Frames frames = Frames::kSilent;

void show_troubles(uint64_t seed, const Limits& limits) {
  Program program = generate(seed, limits);
  const uint32_t troubles = draw_troubles(program, seed, limits.without);
  if (troubles != 0) std::printf("drawn: %s; leave some out with --without\n", trouble_list(troubles).c_str());
}

uint32_t rounds = 0;

/// Courses instead of programs.
int run_courses(const Campaign& campaign) {
  Totals totals;
  for (uint64_t seed = campaign.first; seed <= campaign.last; seed++) {
    const std::string failure =
        run_course({.seed = seed, .rounds = rounds, .without = campaign.limits.without}, rules, &totals, frames);
    if (failure.empty()) continue;
    std::printf("seed %" PRIu64 ": %s\n", seed, failure.c_str());
    return 1;
  }
  std::printf("seeds %" PRIu64 "..%" PRIu64 ": %" PRIu64 " rounds, %" PRIu64 " posts, %" PRIu64 " completions, %" PRIu64
              " connections that went on, %" PRIu64 " made anew\n",
              campaign.first, campaign.last, totals.programs, totals.posts, totals.completions, totals.kept,
              totals.renewed);
  return 0;
}

int run(const Campaign& campaign) {
  if (rounds != 0) return run_courses(campaign);

  const auto begun = std::chrono::steady_clock::now();
  const Trial trial = [](const Program& program, Totals* totals) {
    return run_on_engines(program, rules, totals, frames);
  };
  const Outcome outcome = run_campaign(campaign, trial);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  std::printf("seeds %" PRIu64 "..%" PRIu64 ": %" PRIu64 " programs, %" PRIu64 " posts, %" PRIu64
              " completions, %" PRIu64 " of them errors, %.1f s\n%s",
              campaign.first, campaign.last, outcome.totals.programs, outcome.totals.posts, outcome.totals.completions,
              outcome.totals.errors, seconds, outcome.text().c_str());
  if (!outcome.good) show_troubles(outcome.seed, campaign.limits);
  return outcome.good ? 0 : 1;
}

/// Parts of ten thousand seeds, as long as there is time.
int run_for(Campaign campaign, double hours) {
  constexpr uint64_t kPart = 10'000;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double, std::ratio<3600>>(hours);
  for (int code = 0; std::chrono::steady_clock::now() < end; campaign.first += kPart) {
    campaign.last = campaign.first + kPart - 1;
    code = run(campaign);
    std::fflush(stdout);
    if (code != 0) return code;
  }
  return 0;
}

/// One process for each part of the seeds.
int share(const Campaign& campaign, uint64_t jobs) {
  const uint64_t each = (campaign.last - campaign.first) / jobs + 1;
  for (uint64_t job = 0; job < jobs; job++) {
    Campaign part = campaign;
    part.first = campaign.first + job * each;
    part.last = std::min(part.first + each - 1, campaign.last);
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      const int code = run(part);
      std::fflush(nullptr);
      _exit(code);
    }
  }
  int worst = 0;
  for (int status = 0; wait(&status) > 0;) worst |= WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  Campaign campaign;
  uint64_t jobs = 1;
  double hours = 0;
  bool print = false;
  for (int i = 1; i < argc; i++) {
    const bool more = i + 1 < argc;
    if (std::strcmp(argv[i], "--seeds") == 0 && more) {
      char* end = nullptr;
      campaign.first = campaign.last = std::strtoull(argv[++i], &end, 0);
      if (std::strncmp(end, "..", 2) == 0) campaign.last = std::strtoull(end + 2, nullptr, 0);
    } else if (std::strcmp(argv[i], "--jobs") == 0 && more) {
      jobs = std::strtoull(argv[++i], nullptr, 0);
    } else if (std::strcmp(argv[i], "--without") == 0 && more) {
      if (!parse_troubles(argv[++i], campaign.limits.without)) return usage(2);
    } else if (std::strcmp(argv[i], "--rounds") == 0 && more) {
      rounds = static_cast<uint32_t>(std::strtoul(argv[++i], nullptr, 0));
    } else if (std::strcmp(argv[i], "--hours") == 0 && more) {
      hours = std::strtod(argv[++i], nullptr);
    } else if (std::strcmp(argv[i], "--print") == 0) {
      print = true;
    } else if (std::strcmp(argv[i], "--trace") == 0) {
      frames = Frames::kShown;
      campaign.shrinks = false;
    } else if (std::strcmp(argv[i], "--no-shrink") == 0) {
      campaign.shrinks = false;
    } else {
      return usage(std::strcmp(argv[i], "--help") == 0 ? 0 : 2);
    }
  }
  if (jobs == 0 || campaign.last < campaign.first) return usage(2);
  if (print) {
    for (uint64_t seed = campaign.first; seed <= campaign.last; seed++)
      std::printf("%s", to_cpp(generate(seed, campaign.limits)).c_str());
    return 0;
  }
  if (hours != 0) return run_for(campaign, hours);
  return jobs == 1 ? run(campaign) : share(campaign, jobs);
}
