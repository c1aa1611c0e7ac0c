// A member of a segment scribbles over everything that it may write, while others work and look at every byte.
//
//   segment_scribbles SCRIBBLES [SEED]
//   segment_scribbles --at DIRECTORY SCRIBBLES [SEED]     on the port of a switch that has its segment there
//   segment_scribbles --crowd DIRECTORY MEMBERS           there too: so many members that make contact, and stay
//
// Prints the seed first, and at the end how much the victims did meanwhile, for each second of CPU time, beside what
// they did in peace. The victims' data are whole, and they neither crash, nor fill up with memory or descriptors, nor
// log what is not so. Exit code 1: something of that is wrong.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "board.h"
#include "members.h"
#include "sanitized.h"
#include "scribbler.h"
#include "segment/layout.h"
#include "segment/mailbox.h"
#include "victim.h"

namespace {

using namespace uroce;
using namespace uroce::segment;
using namespace uroce::segment::test;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kLives = 20;              // members that scribble, one after the other
constexpr uint32_t kAtATime = 500;           // scribbles before it yields
constexpr uint64_t kCalmMessages = 2000;     // of every victim, before the scribbling begins
constexpr uint64_t kLeastMessages = 40'000;  // of all victims, during the scribbling
/// How many times slower a victim may be: it has more to read, and the machine may be busy otherwise.
constexpr double kSlower = 10;
constexpr auto kPatience = std::chrono::seconds(kSanitized ? 120 : 60);

struct Done {
  uint64_t messages = 0;
  uint64_t cpu_us = 0;
};

class Run {
 public:
  Run(std::string directory, uint64_t scribbles, uint64_t seed)
      : board_(Board::make()), directory_(std::move(directory)), scribbles_(scribbles), seed_(seed) {}

  /// Returns the exit code.
  int go() {
    for (uint32_t i = 0; i < Board::kVictims; i++) pids_[i] = start_victim(i);
    bool good = wait_until([](const Board::Victim& victim) { return victim.connected.load(); }, "connect");
    board_.phase = Phase::kCalm;
    good = good && wait_until([](const Board::Victim& v) { return v.verified >= kCalmMessages; }, "work in peace");
    const Done calm = since({});
    board_.phase = Phase::kScribbled;
    good = good && scribble(calm);
    const Done scribbled = since(calm);
    // All victims still work, and by now any damage would show.
    uint64_t before[Board::kVictims];
    for (uint32_t i = 0; i < Board::kVictims; i++) before[i] = board_.victims[i].verified;
    good = good && wait_until([&](const Board::Victim& v) { return v.verified >= before[&v - board_.victims] + 100; },
                              "go on working");
    board_.phase = Phase::kEnd;
    if (!good) end_all();
    good = collect() && good;
    return good && compare(calm, scribbled) ? 0 : 1;
  }

 private:
  pid_t start_victim(uint32_t number) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    std::string trouble;
    {
      Victim victim(board_, number);
      trouble = victim.run(directory_);
    }
    if (!trouble.empty()) fprintf(stderr, "victim %u: %s\n", number, trouble.c_str());
    _exit(trouble.empty() ? 0 : 1);
  }

  bool all_alive() const {
    for (const pid_t pid : pids_) {
      siginfo_t info{};
      if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0)
        return false;
    }
    return true;
  }

  template <typename F>
  bool wait_until(F done, const char* what) {
    const auto end = Clock::now() + kPatience;
    for (const Board::Victim& victim : board_.victims) {
      while (!done(victim)) {
        if (!all_alive()) return false;
        if (Clock::now() > end) {
          fprintf(stderr, "victim %td does not %s\n", &victim - board_.victims, what);
          return false;
        }
        usleep(1000);
      }
    }
    return true;
  }

  /// As many scribbles as asked for, and enough for the victims' pace to mean something.
  bool scribble(const Done& calm) {
    Scribbler scribbler(board_, directory_, seed_);
    std::string error;
    const auto end = Clock::now() + kPatience;
    for (uint64_t i = 0; i < scribbles_ || since(calm).messages < kLeastMessages; i += kAtATime) {
      if (i < scribbles_ && i % (scribbles_ / kLives / kAtATime * kAtATime + kAtATime) == 0) {
        scribbler.leave();
        if (!scribbler.join(error)) {
          fprintf(stderr, "the scribbler cannot join: %s\n", error.c_str());
          return false;
        }
      }
      for (uint32_t k = 0; k < kAtATime; k++) scribbler.scribble();
      sched_yield();
      if (!all_alive()) return false;
      if (i > scribbles_ && Clock::now() > end) {
        fprintf(stderr, "the victims have next to nothing done while somebody scribbled\n");
        return false;
      }
    }
    scribbler.leave();
    return true;
  }

  Done since(const Done& before) const {
    Done done;
    for (const Board::Victim& victim : board_.victims) {
      done.messages += victim.verified;
      done.cpu_us += victim.cpu_us;
    }
    return {done.messages - before.messages, done.cpu_us - before.cpu_us};
  }

  /// Those that hang, too. By now all have reported what they had to.
  void end_all() const {
    usleep(200'000);
    for (const pid_t pid : pids_) kill(pid, SIGKILL);
  }

  bool collect() {
    bool good = true;
    for (const pid_t pid : pids_) {
      int status = 0;
      if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      if (WIFSIGNALED(status)) fprintf(stderr, "a victim was ended by signal %d\n", WTERMSIG(status));
      good = false;
    }
    return good;
  }

  bool compare(const Done& calm, const Done& scribbled) const {
    const auto rate = [](const Done& done) {
      return static_cast<double>(done.messages) * 1e6 / static_cast<double>(std::max<uint64_t>(done.cpu_us, 1));
    };
    uint64_t nonsense = 0, dropped = 0;
    for (const Board::Victim& victim : board_.victims) {
      nonsense += victim.nonsense;
      dropped += victim.dropped;
    }
    printf("%" PRIu64 " messages verified in peace, %.0f for a second of CPU time; %" PRIu64
           " while somebody scribbled, %.0f; %" PRIu64 " slots made no sense, %" PRIu64 " frames were dropped\n",
           calm.messages, rate(calm), scribbled.messages, rate(scribbled), nonsense, dropped);
    if (rate(scribbled) * kSlower < rate(calm)) {
      fprintf(stderr, "the victims were slowed down more than %.0f times\n", kSlower);
      return false;
    }
    if (nonsense != 0 && dropped != 0) return true;
    fprintf(stderr, "the victims saw nothing of what was scribbled\n");
    return false;
  }

  Board& board_;
  const std::string directory_;
  const uint64_t scribbles_;
  const uint64_t seed_;
  pid_t pids_[Board::kVictims] = {};
};

/// The only victim is the switch, which checks itself. Returns the exit code.
int scribble_at(const std::string& path, uint64_t scribbles, uint64_t seed) {
  Board& board = Board::make();
  Directory directory;
  std::string error;
  if (!directory.open(path, error) || !directory.scan() || directory.members().empty())
    return fprintf(stderr, "%s: nobody is there %s\n", path.c_str(), error.c_str()), 1;
  for (Board::Victim& victim : board.victims) victim.id = directory.members().begin()->first;
  Scribbler scribbler(board, path, seed, Role::kBridge);
  for (uint64_t i = 0; i < scribbles; i++) {
    if (i % (scribbles / kLives + 1) == 0) {
      scribbler.leave();
      if (!scribbler.join(error)) return fprintf(stderr, "the scribbler cannot join: %s\n", error.c_str()), 1;
    }
    scribbler.scribble();
    if (i % kAtATime == 0) sched_yield();
  }
  scribbler.leave();
  return 0;
}

/// Many members of one process, none of which confirms that it knows the switch's memory, so that the switch keeps a
/// descriptor for each.
int crowd_at(const std::string& path, unsigned count) {
  struct Member {
    Membership membership;
    Mailbox mailbox;
  };
  Directory directory;
  std::string error;
  if (!directory.open(path, error) || !directory.scan() || directory.members().empty())
    return fprintf(stderr, "%s: nobody is there %s\n", path.c_str(), error.c_str()), 1;
  const MemberId victim = directory.members().begin()->first;
  OwnMemory base, lane;
  bool good = base.make("crowd", sizeof(BaseMemory), error) && lane.make("crowd", sizeof(LaneMemory), error);
  std::vector<std::unique_ptr<Member>> crowd(count);
  for (unsigned i = 0; i < count && good; i++) {
    crowd[i] = std::make_unique<Member>();
    MemberRecord card = record_of("crowd" + std::to_string(i), static_cast<uint8_t>(i));
    card.mac.bytes[4] = static_cast<uint8_t>(1 + (i >> 8));
    card.role = Role::kBridge;
    good = crowd[i]->membership.join(directory, card, error) &&
           crowd[i]->mailbox.open(directory, crowd[i]->membership.id(), error);
  }
  if (!good) return fprintf(stderr, "the crowd cannot join: %s\n", error.c_str()), 1;
  printf("%u members\n", count);
  fflush(stdout);
  while (true) {
    for (const auto& member : crowd) {
      Letter letter;
      letter.kind = Letter::Kind::kHello;
      letter.from = member->membership.id();
      letter.answer = 1;
      member->mailbox.send(victim, letter, {base.fd(), lane.fd()});
      usleep(1000);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--crowd")
    return crowd_at(argv[2], static_cast<unsigned>(strtoul(argv[3], nullptr, 0)));
  const bool at = argc > 3 && std::string_view(argv[1]) == "--at";
  const char* const place = at ? argv[2] : nullptr;
  argc -= at ? 2 : 0;
  argv += at ? 2 : 0;
  if (argc < 2) return fprintf(stderr, "segment_scribbles [--at DIRECTORY] SCRIBBLES [SEED]\n"), 2;
  const uint64_t scribbles = strtoull(argv[1], nullptr, 0);
  const uint64_t seed = argc > 2 ? strtoull(argv[2], nullptr, 0) : uroce::SystemRandom().next_u64();
  printf("%" PRIu64 " scribbles, seed %" PRIu64 "\n", scribbles, seed);
  fflush(stdout);
  if (at) return scribble_at(place, scribbles, seed);
  char directory[] = "/tmp/uroce-scribbles-XXXXXX";
  if (mkdtemp(directory) == nullptr) return perror(directory), 1;
  const int code = Run(directory, scribbles, seed).go();
  std::filesystem::remove_all(directory);
  return code;
}
