// What the two fuzzers of connection management share: `cm_call_fuzz` calls librdmacm, `cm_command_fuzz` writes the
// commands of rdma_user_cm.h to the device.
#pragma once

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <map>
#include <string>

#include <unistd.h>

#include "fuzz_random.h"

namespace cm_fuzz {

using fuzz::Random;

/// The call in progress, for whoever finds the process dead or hanging.
inline const char* volatile current_call = "none";

/// Ends the process if a call takes too long: none of these calls has to wait for another thread.
inline void on_alarm(int /*signal*/) {
  const char text[] = "a call hangs: ";
  if (write(STDOUT_FILENO, text, sizeof text - 1) < 0) _exit(3);
  if (write(STDOUT_FILENO, current_call, std::strlen(current_call)) < 0) _exit(3);
  if (write(STDOUT_FILENO, "\n", 1) < 0) _exit(3);
  _exit(2);
}

/// Compares what calls return with what they may return, and counts.
class Judge {
 public:
  static constexpr unsigned kHangSeconds = 40;

  Judge() { std::signal(SIGALRM, on_alarm); }

  /// To be called before a call.
  static void begin(const char* call) {
    current_call = call;
    alarm(kHangSeconds);
  }
  /// `error` (0 or an errno) must be one of these. Returns whether it is 0.
  bool among(const char* call, int error, std::initializer_list<int> allowed) {
    count(call, error == 0);
    if (std::find(allowed.begin(), allowed.end(), error) == allowed.end()) {
      std::string text = "not one of:";
      for (const int one : allowed) text += std::string(" ") + (one == 0 ? "success" : std::strerror(one));
      problem(call, text.c_str(), error);
    }
    return error == 0;
  }
  void count(const char* call, bool good) {
    calls_++;
    Outcomes& outcomes = outcomes_[call];
    (good ? outcomes.good : outcomes.bad)++;
  }
  void problem(const char* call, const char* what, int64_t value) {
    problems_++;
    std::printf("call %llu, %s: %s (%lld, %s)\n", static_cast<unsigned long long>(calls_), call, what,
                static_cast<long long>(value), std::strerror(static_cast<int>(value)));
  }
  /// Prints how often each call succeeded and failed. A call that never succeeded is a problem, since it was not
  /// tested. Exempt are those in brackets, which must fail, and in a short run those that need several others before
  /// them.
  void sum_up(uint64_t steps) {
    constexpr uint64_t kLong = 100'000;
    static constexpr const char* kRare[] = {
        "notify",   "rdma_notify",         "rdma_establish",      "join", "leave", "event 10",
        "event 12", "rdma_join_multicast", "rdma_leave_multicast"};
    alarm(0);
    for (const auto& [call, outcomes] : outcomes_) {
      std::printf("%-28s %8llu good %8llu bad\n", call.c_str(), static_cast<unsigned long long>(outcomes.good),
                  static_cast<unsigned long long>(outcomes.bad));
      const bool may_fail =
          call[0] == '(' || (steps < kLong && std::find(std::begin(kRare), std::end(kRare), call) != std::end(kRare));
      if (outcomes.good == 0 && !may_fail) problem(call.c_str(), "never succeeded", 0);
    }
    std::printf("%llu calls, %llu problems\n", static_cast<unsigned long long>(calls_),
                static_cast<unsigned long long>(problems_));
  }
  /// Something that must happen in a run that is long enough.
  void has_to_happen(const char* what) { outcomes_[what]; }
  uint64_t problems() const { return problems_; }

 private:
  struct Outcomes {
    uint64_t good = 0;
    uint64_t bad = 0;
  };

  uint64_t calls_ = 0;
  uint64_t problems_ = 0;
  std::map<std::string, Outcomes> outcomes_;
};

/// The command line: FUZZER [SEED [STEPS]]. Prints it, so that a failure can be repeated.
struct Run {
  uint64_t seed;
  uint64_t steps;
};

inline Run run_of(int argc, char** argv) {
  const Run run{argc > 1 ? std::strtoull(argv[1], nullptr, 0) : static_cast<uint64_t>(std::time(nullptr)),
                argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 20000};
  std::printf("seed %llu, %llu steps\n", static_cast<unsigned long long>(run.seed),
              static_cast<unsigned long long>(run.steps));
  std::fflush(stdout);
  return run;
}

/// Takes random steps until there are enough problems; returns the exit status.
template <typename Player>
int main_of(int argc, char** argv) {
  const Run run = run_of(argc, argv);
  Random random(run.seed);
  Judge judge;
  Player player(random, judge);
  for (uint64_t i = 0; i < run.steps && judge.problems() < 10; i++) player.step();
  if (judge.problems() == 0) player.finish();
  judge.sum_up(run.steps);
  return judge.problems() == 0 ? 0 : 1;
}

}  // namespace cm_fuzz
