// Who drives, played: two hosts, each with a program and a thread, on two cores in virtual time. The decisions are
// Driving's; frames, bells and the looks of senders are a model of segment/bells.h. Drawn programs do drawn things for
// drawn times, and drawn schedulers take their cores away. Whatever they do, no frame lies for longer than the table
// says (ADR 2), and a program that polls is hardly disturbed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>

#include "dpdk/driving.h"

namespace uroce {
namespace {

using Do = Driving::Do;

constexpr Duration kStep = microseconds(1);
constexpr Duration kLook = microseconds(50);  // Bells::kLook

constexpr Duration kAnswers = microseconds(10);  // until a program that sees its memory change has sent the next frame

enum class Manner : uint8_t { kPolls, kPollsMemory, kWaits, kComputes, kAnswersFromMemory };
enum class Bell : uint8_t { kNever, kAtOnce, kLeftLying };

struct Host {
  Driving driving{Progress::kAuto};
  Manner manner = Manner::kComputes;
  Instant manner_until{0};
  Instant away_until{0};  // the program has no core
  // The thread.
  Bell bell = Bell::kNever;
  uint32_t time = 0;  // of the bell
  Instant sleeps_until{0};
  bool asleep = false;
  bool naps = false;
  bool letter = false;
  bool rung = false;
  uint64_t wakes = 0;
  // Frames that lie here, and what their sender knows.
  std::deque<Instant> frames;
  uint64_t read = 0;
  Duration longest{0};  // for which a frame lay
  uint64_t late = 0;    // frames that lay for longer than a look
  Instant answers_at = Instant::never();
  uint64_t found = 0;
  uint32_t rung_at = UINT32_MAX;
  std::optional<uint64_t> lay_at;
  Instant next_look{0};

  uint32_t take(Instant now) {
    const auto count = static_cast<uint32_t>(frames.size());
    if (count != 0) answers_at = now + kAnswers;
    for (; !frames.empty(); frames.pop_front()) {
      longest = std::max(longest, now - frames.front());
      late += now - frames.front() > kLook;
    }
    read += count;
    found += count;
    return count;
  }
};

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {
    for (Host& host : hosts_) {
      host.driving.set_wakes(Driving::Wakes::kLeftLying);
      host.driving.note_told(now_);
    }
  }
  void run(Duration time) {
    for (const Instant end = now_ + time; now_ < end; now_ = now_ + kStep) {
      for (int i = 0; i < 2; i++) step(hosts_[i], hosts_[1 - i]);
    }
  }
  void set(int host, Manner manner) {
    begin(hosts_[host], manner);
    hosts_[host].manner_until = Instant::never();
  }
  void send_to(int host) { send(hosts_[host]); }
  void take_core(int host, Duration time) { hosts_[host].away_until = now_ + time; }
  Host& host(int i) { return hosts_[i]; }
  Instant now() const { return now_; }
  bool draws = false;

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  void begin(Host& host, Manner manner) {
    host.manner = manner;
    if (manner != Manner::kWaits) return;
    host.driving.note_waits();
    wake(host);
    host.driving.note_told(now_);
  }
  void wake(Host& host) {
    if (host.asleep) host.wakes++;
    host.asleep = false;
  }
  void send(Host& to) {
    to.frames.push_back(now_);
    if (to.bell == Bell::kAtOnce) ring(to);
  }
  void ring(Host& to) {
    if (to.rung_at == to.time) return;
    to.rung_at = to.time;
    to.letter = true;
    if (to.asleep && !to.naps) wake(to);
  }
  /// The sender's look, during its turns.
  void look(Host& to) {
    if (now_ < to.next_look) return;
    to.next_look = now_ + kLook;
    if (to.frames.empty()) return to.lay_at.reset();
    const bool lies = to.lay_at == to.read;
    to.lay_at = to.read;
    if (to.bell == Bell::kAtOnce || (lies && to.bell == Bell::kLeftLying)) ring(to);
  }
  bool watching(const Host& to) const {
    return !to.frames.empty() && to.bell == Bell::kLeftLying && to.rung_at != to.time;
  }
  void set_bell(Host& host, Bell bell) {
    host.bell = bell;
    host.time++;
  }
  void step(Host& own, Host& peer) {
    if (draws && now_ >= own.manner_until) {
      begin(own, static_cast<Manner>(below(4)));
      own.manner_until = now_ + microseconds(static_cast<int64_t>(10 + below(below(2) == 0 ? 300 : 30'000)));
    }
    if (draws && below(20'000) == 0) own.away_until = now_ + microseconds(static_cast<int64_t>(below(4000)));
    if (now_ >= own.away_until) program(own, peer);
    thread(own, peer);
  }
  void program(Host& own, Host& peer) {
    if (own.manner == Manner::kPolls) {
      own.driving.note_driven(now_);
      own.take(now_);
      look(peer);
    }
    if (own.manner == Manner::kAnswersFromMemory && now_ >= own.answers_at) {
      own.answers_at = Instant::never();
      own.driving.note_driven(now_);
      send(peer);
      look(peer);
    }
    if (draws && below(200) == 0) send(peer);
    if (own.manner == Manner::kPollsMemory && draws && below(500) == 0) own.driving.note_driven(now_);
  }
  void thread(Host& own, Host& peer) {
    if (own.asleep && now_ < own.sleeps_until && (own.naps || !own.letter)) return;
    if (own.asleep) wake(own);
    own.rung |= own.letter && !own.naps;
    const bool rung = std::exchange(own.rung, false);
    Driving::Next next = own.driving.before(now_, rung);
    if (next.what == Do::kDrive) next = drive(own, peer, rung);
    rest(own, peer, next);
  }
  Driving::Next drive(Host& own, Host& peer, bool rung) {
    if (own.bell != Bell::kNever) set_bell(own, Bell::kNever);
    own.letter = false;
    if (!rung && own.driving.program_drives(now_)) return {};
    const uint32_t work = own.take(now_);
    look(peer);
    own.driving.note_turns(now_, rung, work != 0);
    return own.driving.after({.at = now_,
                              .work = work,
                              .next_timeout = Instant::never(),
                              .has_qps = true,
                              .program_busy = own.manner != Manner::kWaits});
  }
  void rest(Host& own, Host& peer, const Driving::Next& next) {
    Duration longest = next.longest;
    if (next.what == Do::kDrive || next.what == Do::kYield) return;
    own.naps = next.what == Do::kNap;
    if (next.what == Do::kStandBack && own.bell != Bell::kLeftLying) {
      set_bell(own, Bell::kLeftLying);
      if (!own.frames.empty() && !own.driving.program_drives(now_)) return;
    }
    if (next.what == Do::kSleep) {
      set_bell(own, Bell::kAtOnce);
      if (!own.frames.empty()) return set_bell(own, Bell::kNever);
      if (watching(peer)) longest = std::min(longest, Driving::kWatch);
    }
    own.asleep = true;
    own.sleeps_until = now_ + longest;
  }

  std::mt19937_64 random_;
  Instant now_{1'000'000'000};
  std::array<Host, 2> hosts_;
};

TEST(DrivingModel, WhoPollsIsLeftAlone) {
  World world(1);
  world.set(0, Manner::kPolls);
  world.set(1, Manner::kPolls);
  world.run(milliseconds(100));
  const uint64_t before = world.host(0).wakes + world.host(1).wakes;
  for (int i = 0; i < 100'000; i++) {
    world.send_to(i % 2);
    world.run(microseconds(10));
  }
  EXPECT_LE(world.host(0).wakes + world.host(1).wakes - before, 250u) << "in a second, by both";
  EXPECT_LE(world.host(0).longest, microseconds(2));
}

/// A program that polls has done so for long when a frame for `manner` comes from it.
Duration lies_for(Manner before, Manner manner, Manner sender) {
  World world(1);
  world.set(0, before);
  world.set(1, sender);
  world.run(milliseconds(200));
  world.set(0, manner);
  world.host(0).longest = {0};
  world.send_to(0);
  world.run(milliseconds(50));
  EXPECT_TRUE(world.host(0).frames.empty());
  return world.host(0).longest;
}

TEST(DrivingModel, WhoWakesWhomAndWithinWhichTime) {
  for (const Manner away : {Manner::kComputes, Manner::kPollsMemory}) {
    EXPECT_LE(lies_for(Manner::kPolls, away, Manner::kPolls), microseconds(105));
    EXPECT_LE(lies_for(Manner::kPolls, away, Manner::kComputes), milliseconds(11)) << "nobody looks but its own thread";
    EXPECT_LE(lies_for(away, away, Manner::kPolls), microseconds(2)) << "each frame wakes";
    EXPECT_LE(lies_for(away, away, Manner::kComputes), microseconds(2));
  }
  EXPECT_LE(lies_for(Manner::kPolls, Manner::kWaits, Manner::kComputes), microseconds(2));
  EXPECT_LE(lies_for(Manner::kWaits, Manner::kWaits, Manner::kWaits), microseconds(2));
  EXPECT_LE(lies_for(Manner::kPolls, Manner::kPolls, Manner::kPolls), microseconds(2));
}

/// It posts and looks into its CQ between two waits, like qperf's *_poll_lat.
TEST(DrivingModel, WhoPollsItsMemoryIsFoundOut) {
  World world(1);
  world.set(0, Manner::kPolls);
  world.set(1, Manner::kPolls);
  world.run(milliseconds(100));
  world.set(0, Manner::kPollsMemory);
  Duration sum{0};
  for (int i = 0; i < 1000; i++) {
    world.host(0).driving.note_driven(world.now());
    world.host(0).longest = {0};
    world.send_to(0);
    for (int waited = 0; !world.host(0).frames.empty() && waited < 1000; waited++) world.run(microseconds(1));
    sum = {sum.ns + world.host(0).longest.ns};
  }
  EXPECT_LE(sum.ns / 1000, 30'000) << "ns a frame";
}

/// Two such programs, as qperf's are. They are not to be found out again and again, since frames lie meanwhile. `away`:
/// for so long each program has no core, once in ten milliseconds.
uint64_t late_frames_of_two_that_poll_their_memory(Duration away) {
  World world(1);
  world.set(0, Manner::kAnswersFromMemory);
  world.set(1, Manner::kAnswersFromMemory);
  world.send_to(0);
  world.run(milliseconds(100));
  for (int i = 0; i < 2; i++) world.host(i).late = 0;
  for (int i = 0; i < 200; i++) {
    world.take_core(i % 2, away);
    world.run(milliseconds(5));
  }
  EXPECT_GE(world.host(0).found, 10'000u);
  return world.host(0).late + world.host(1).late;
}

TEST(DrivingModel, WhoPollsItsMemoryIsFoundOutOnce) {
  EXPECT_EQ(late_frames_of_two_that_poll_their_memory({0}), 0u);
  EXPECT_LE(late_frames_of_two_that_poll_their_memory(milliseconds(1)), 10u) << "beside threads that compute";
}

/// Its thread naps where it should sleep, until it is seen that the program makes many turns.
TEST(DrivingModel, WhoPollsAgainAfterThatIsLeftAlone) {
  World world(1);
  world.set(0, Manner::kAnswersFromMemory);
  world.set(1, Manner::kAnswersFromMemory);
  world.send_to(0);
  world.run(milliseconds(100));
  for (int i = 0; i < 2; i++) world.set(i, Manner::kPolls);
  for (int i = 0; i < 1000; i++) {
    world.send_to(i % 2);
    world.run(microseconds(10));
  }
  const uint64_t before = world.host(0).wakes + world.host(1).wakes;
  for (int i = 0; i < 100'000; i++) {
    world.send_to(i % 2);
    world.run(microseconds(10));
  }
  EXPECT_LE(world.host(0).wakes + world.host(1).wakes - before, 500u) << "in a second, by both";
}

TEST(DrivingModel, WhoLosesItsCoreOnceKeepsItsPeace) {
  World world(1);
  world.set(0, Manner::kPolls);
  world.set(1, Manner::kPolls);
  world.run(milliseconds(200));
  world.take_core(0, milliseconds(3));
  world.send_to(0);
  world.run(milliseconds(3));
  EXPECT_LE(world.host(0).longest, microseconds(105)) << "its thread takes the frame";
  const uint64_t before = world.host(0).wakes;
  world.run(milliseconds(1000));
  EXPECT_LE(world.host(0).wakes - before, 125u);
}

/// No frame lies for longer than the longest look, whatever programs and schedulers do.
TEST(DrivingModel, DrawnProgramsOnDrawnCores) {
  for (uint64_t seed = 1; seed <= 40; seed++) {
    World world(seed);
    world.draws = true;
    world.run(milliseconds(300));
    world.draws = false;
    world.run(milliseconds(20));
    for (int i = 0; i < 2; i++) {
      EXPECT_TRUE(world.host(i).frames.empty()) << "seed " << seed;
      EXPECT_GT(world.host(i).found, 1000u) << "seed " << seed;
      EXPECT_LE(world.host(i).longest, Driving::kLookLast * 2) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace uroce
