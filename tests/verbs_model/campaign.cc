#include "verbs_model/campaign.h"

#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace uroce::model {

namespace {

/// The child's report, in shared memory, which remains when the child dies.
struct Report {
  uint64_t seed;
  Totals totals;
  char failure[600];
};

class SharedReport {
 public:
  SharedReport() {
    void* memory = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      std::perror("mmap");
      std::abort();
    }
    report_ = static_cast<Report*>(memory);
  }
  ~SharedReport() { munmap(report_, sizeof(Report)); }
  SharedReport(const SharedReport&) = delete;
  SharedReport& operator=(const SharedReport&) = delete;
  Report* operator->() const { return report_; }
  void fail(const std::string& text) const {
    std::snprintf(report_->failure, sizeof report_->failure, "%s", text.c_str());
  }

 private:
  Report* report_;
};

/// Limits CPU time, so that a busy machine does not look like a hang. SIGVTALRM ends the process.
void set_limit(uint32_t ms) {
  itimerval timer{};
  timer.it_value = {static_cast<time_t>(ms / 1000), static_cast<suseconds_t>(ms % 1000 * 1000)};
  setitimer(ITIMER_VIRTUAL, &timer, nullptr);
}

/// Runs `work` in a child process and returns how that ended.
std::string apart(const SharedReport& report, const std::function<void()>& work) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return "dies: no process can be made";
  if (child == 0) {
    std::signal(SIGVTALRM, SIG_DFL);
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    if (WTERMSIG(status) == SIGVTALRM) return "hangs: a call does not return";
    return "dies by signal " + std::to_string(WTERMSIG(status));
  }
  if (WEXITSTATUS(status) != 0) return "dies with status " + std::to_string(WEXITSTATUS(status));
  return report->failure;
}

std::string kind_of(const std::string& failure) {
  for (const char* kind : {"hangs", "dies"}) {
    if (failure.starts_with(kind)) return kind;
  }
  return failure.empty() ? "" : "disagrees";
}

class Shrinker {
 public:
  Shrinker(Program program, const Trial& trial, Place place)
      : best_(std::move(program)), trial_(trial), place_(place), kind_(attempt(best_)) {}

  Program run() {
    if (kind_.empty()) return best_;
    bool smaller = true;
    for (unsigned round = 0; smaller && round < 4; round++) {
      const Program before = best_;
      remove_some(&Program::steps);
      remove_some(&Program::faults);
      simplify_steps();
      simplify_objects();
      smaller = !(before == best_);
    }
    return best_;
  }

 private:
  static constexpr unsigned kTrialsMax = 3000;

  std::string attempt(const Program& program) const {
    return kind_of(place_ == Place::kApart ? try_apart(program, trial_) : trial_(program, nullptr));
  }

  bool accept(const Program& candidate) {
    if (candidate == best_ || trials_ >= kTrialsMax) return false;
    trials_++;
    if (attempt(candidate) != kind_) return false;
    best_ = candidate;
    return true;
  }

  /// Leaves out halves, quarters, and so on down to single elements.
  template <typename T>
  void remove_some(std::vector<T> Program::*list) {
    for (size_t size = std::max<size_t>((best_.*list).size() / 2, 1); size != 0; size /= 2) {
      for (size_t at = 0; at < (best_.*list).size();) {
        Program candidate = best_;
        auto& items = candidate.*list;
        const size_t end = std::min(at + size, items.size());
        items.erase(items.begin() + static_cast<ptrdiff_t>(at), items.begin() + static_cast<ptrdiff_t>(end));
        if (!accept(candidate)) at += size;
      }
    }
  }

  template <typename Change>
  void change_step(size_t at, Change&& change) {
    Program candidate = best_;
    change(candidate.steps[at]);
    accept(candidate);
  }

  void simplify_steps() {
    for (size_t at = 0; at < best_.steps.size(); at++) {
      for (size_t element = best_.steps[at].sges.size(); element-- > 0;) {
        change_step(at, [&](Step& s) { s.sges.erase(s.sges.begin() + static_cast<ptrdiff_t>(element)); });
      }
      for (size_t element = 0; element < best_.steps[at].sges.size(); element++) {
        for (const uint32_t length : {1u, 8u, 64u, 300u, 1100u}) {
          if (best_.steps[at].sges[element].length <= length) break;
          change_step(at, [&](Step& s) { s.sges[element].length = length; });
        }
        if (best_.steps[at].sges[element].region == Region::kSource) {
          change_step(at, [&](Step& s) { s.sges[element].offset = 0; });
        }
      }
      for (const uint8_t flag : {kSendFence, kSendSolicited, kSendInline, kSendSignaled}) {
        change_step(at, [&](Step& s) { s.flags &= static_cast<uint8_t>(~flag); });
      }
      if (best_.steps[at].region != Region::kWords) change_step(at, [](Step& s) { s.offset = 0; });
      change_step(at, [](Step& s) { s.imm = 0; });
      if (best_.steps[at].what == Do::kRun) change_step(at, [](Step& s) { s = {.what = Do::kSettle}; });
      if (best_.steps[at].what == Do::kPoll) change_step(at, [](Step& s) { s.count = 64; });
    }
  }

  template <typename Member>
  void reset_member(size_t qp, Member member) {
    Program candidate = best_;
    candidate.qps[qp].*member = QueuePair{}.*member;
    accept(candidate);
  }

  /// Resets a member in which both queue pairs must agree.
  template <typename Member>
  void reset_both(size_t qp, Member member) {
    Program candidate = best_;
    for (const size_t each : {qp, qp ^ 1}) candidate.qps[each].*member = QueuePair{}.*member;
    accept(candidate);
  }

  void simplify_objects() {
    while (best_.qps.size() > 2) {
      Program candidate = best_;
      candidate.qps.resize(candidate.qps.size() - 2);
      const bool used = std::any_of(candidate.steps.begin(), candidate.steps.end(), [&](const Step& s) {
        return s.qp >= candidate.qps.size() || s.to >= candidate.qps.size();
      });
      if (used || !accept(candidate)) break;
    }
    for (size_t qp = 0; qp < best_.qps.size(); qp++) {
      reset_member(qp, &QueuePair::srq);
      reset_member(qp, &QueuePair::signal_all);
      reset_member(qp, &QueuePair::send_cq);
      reset_member(qp, &QueuePair::recv_cq);
      reset_member(qp, &QueuePair::send_wrs);
      reset_member(qp, &QueuePair::recv_wrs);
      reset_member(qp, &QueuePair::sges);
      reset_member(qp, &QueuePair::inline_bytes);
      reset_both(qp, &QueuePair::mtu);
      reset_member(qp, &QueuePair::access);
      reset_member(qp, &QueuePair::retries);
      reset_member(qp, &QueuePair::rnr_retries);
      reset_both(qp, &QueuePair::reads);
      reset_both(qp, &QueuePair::recovery);
    }
    for (size_t i = 0; i < best_.endpoints.size(); i++) {
      Program candidate = best_;
      candidate.endpoints[i] = Endpoint{};
      if (!std::any_of(best_.qps.begin(), best_.qps.end(), [](const QueuePair& qp) { return qp.srq; }))
        accept(candidate);
    }
  }

  Program best_;
  const Trial& trial_;
  const Place place_;
  const std::string kind_;
  unsigned trials_ = 0;
};

}  // namespace

std::string try_apart(const Program& program, const Trial& trial, uint32_t limit_ms) {
  const SharedReport report;
  return apart(report, [&] {
    set_limit(limit_ms);
    report.fail(trial(program, nullptr));
  });
}

Program shrink(Program program, const Trial& trial, Place place) {
  return Shrinker(std::move(program), trial, place).run();
}

Outcome run_campaign(const Campaign& campaign, const Trial& trial) {
  const SharedReport report;
  Outcome outcome;
  outcome.failure = apart(report, [&] {
    for (uint64_t seed = campaign.first; seed <= campaign.last; seed++) {
      report->seed = seed;
      set_limit(3000);
      const std::string failure = trial(generate(seed, campaign.limits), &report->totals);
      if (failure.empty()) continue;
      report.fail(failure);
      return;
    }
  });
  outcome.totals = report->totals;
  if (outcome.failure.empty()) return outcome;
  outcome.good = false;
  outcome.seed = report->seed;
  outcome.program = generate(outcome.seed, campaign.limits);
  if (campaign.shrinks) {
    outcome.program = shrink(outcome.program, trial);
    const std::string short_failure = try_apart(outcome.program, trial);
    if (!short_failure.empty()) outcome.failure = short_failure;
  }
  return outcome;
}

std::string Outcome::text() const {
  if (good) return "";
  return "seed " + std::to_string(seed) + ": " + failure +
         "\nIn tests/verbs_model/model_test.cc:\n\n"
         "TEST(Found, Seed" +
         std::to_string(seed) + ") {\n" + to_cpp(program) + "  EXPECT_EQ(run_on_engines(program, Rules{}), \"\");\n}\n";
}

}  // namespace uroce::model
