// Programs that poll for each other's messages, played on two cores that they share with others, in virtual time. When
// they yield is YieldBackoff's; the scheduler is a model that hands a core round, for time slices that are drawn:
// slices of one length would keep two cores in step, or out of step, for ever. The yardsticks are a program that does
// not yield at all, as one that polls a socket of the kernel's, and one that yields after each poll in vain: the first
// does well where peers have a core each, the other one where they share a core.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "dpdk/yield_backoff.h"

namespace uroce::yield_model {
namespace {

constexpr Duration kPoll = nanoseconds(250);
constexpr Duration kTurn = microseconds(10);   // of a long message, which comes in parts
constexpr Duration kCall = nanoseconds(600);   // of the kernel
constexpr Duration kSwitch = microseconds(2);  // from one thread to another
// To take a message, and to send another.
constexpr Duration kShort = nanoseconds(800);
constexpr Duration kMiddling = microseconds(50);
constexpr Duration kLong = microseconds(600);

enum class Manner : uint8_t { kComputes, kSpins, kYieldsAtEachPoll, kOurs };

struct Part {
  Instant at;
  bool last;
};

struct Thread {
  Thread(Manner does, Duration takes) : manner(does), message(takes) {}

  /// One step at `now`. Whether it gives up the core.
  bool step(Instant& now) {
    const Instant begun = now;
    const bool yields = manner != Manner::kComputes && poll(now);
    if (manner == Manner::kComputes) now = now + kTurn;
    used.ns += (now - begun).ns;
    return yields;
  }
  bool poll(Instant& now) {
    if (yielded) backoff.on_yielded(now, now - yielded_at, false);
    yielded = false;
    if (work(now)) return false;
    yielded = backoff.on_nothing(now) || manner == Manner::kYieldsAtEachPoll;
    now = now + kPoll;
    if (manner == Manner::kSpins) yielded = false;
    yielded_at = now;
    if (yielded) now = now + kCall;
    return yielded;
  }
  /// It takes what has come, and answers when that was all. Whether there was any.
  bool work(Instant& now) {
    const bool takes = !come.empty() && come.front().at <= now;
    if (!takes && to_send == 0) return false;
    backoff.on_work(now);
    now = now + nanoseconds(message.ns / parts() / 2);
    if (takes) {
      if (come.front().last) to_send = parts();
      come.pop_front();
    } else {
      to_send--;
      peer->come.push_back({now, to_send == 0});
      if (to_send == 0) messages++;
    }
    return true;
  }
  int64_t parts() const { return std::max<int64_t>(message.ns / 2 / kTurn.ns, 1); }

  Manner manner;
  const Duration message;
  std::deque<Part> come;
  int64_t to_send = 0;  // parts of a message
  YieldBackoff backoff;
  Thread* peer = nullptr;
  bool yielded = false;
  Instant yielded_at{0};
  Duration used{0};
  uint64_t messages = 0;
};

struct Core {
  std::deque<Thread*> threads;  // the first one has it
  Instant now{1'000'000'000};
  Instant slice_ends{0};
};

constexpr int kNowhere = -1;  // it sleeps

class World {
 public:
  World(uint64_t seed, Duration slice) : random_(seed), slice_(slice) {}
  Thread& add(Manner manner, Duration message = kShort) {
    return *threads_.emplace_back(std::make_unique<Thread>(manner, message));
  }
  /// Two programs that play ping-pong.
  void add_peers(Manner manner, Duration message) {
    Thread& first = add(manner, message);
    Thread& second = add(manner, message);
    first.peer = &second;
    second.peer = &first;
    first.to_send = first.parts();
  }
  Thread& thread(size_t i) { return *threads_[i]; }
  /// Of the first of the peers.
  uint64_t messages() const { return threads_.front()->messages; }
  /// Thread `i` goes to core `where[i]`.
  void place(const std::vector<int>& where) {
    for (Core& core : cores_) core.threads.clear();
    for (size_t i = 0; i < threads_.size(); i++)
      if (where[i] != kNowhere) cores_[where[i]].threads.push_back(threads_[i].get());
  }
  /// The messages that came meanwhile.
  uint64_t run(Duration time) {
    const uint64_t before = messages();
    const Instant end = std::max(cores_[0].now, cores_[1].now) + time;
    while (true) {
      Core& core = cores_[0].now <= cores_[1].now ? cores_[0] : cores_[1];
      if (core.now >= end) return messages() - before;
      step(core, end);
    }
  }

 private:
  void step(Core& core, Instant end) {
    if (core.threads.empty()) {
      core.now = end;
      return;
    }
    if (!core.threads.front()->step(core.now) && core.now < core.slice_ends) return;
    core.slice_ends = core.now + nanoseconds(slice_.ns / 2 + static_cast<int64_t>(random_() % slice_.ns));
    if (core.threads.size() == 1) return;
    core.threads.push_back(core.threads.front());
    core.threads.pop_front();
    core.now = core.now + kSwitch;
  }

  std::mt19937_64 random_;
  const Duration slice_;  // a typical one
  std::vector<std::unique_ptr<Thread>> threads_;
  std::array<Core, 2> cores_;
};

constexpr Duration kSlice = milliseconds(4);
constexpr Duration kPlayed = milliseconds(600);

/// Two peers, the first two in `where`, and threads that compute: the messages of kPlayed.
uint64_t played(Manner manner, Duration message, const std::vector<int>& where) {
  World world(1, kSlice);
  world.add_peers(manner, message);
  for (size_t i = 2; i < where.size(); i++) world.add(Manner::kComputes);
  world.place(where);
  return world.run(kPlayed);
}

TEST(YieldModel, BesideThreadsThatComputeAProgramKeepsItsShare) {
  World world(1, kSlice);
  world.add_peers(Manner::kOurs, kShort);
  world.add(Manner::kComputes);
  world.add(Manner::kComputes);
  world.place({0, 1, 0, 1});
  EXPECT_GE(world.run(kPlayed), 15'000u) << "alone it would be 300,000";
  for (size_t i = 0; i < 2; i++) EXPECT_GE(world.thread(i).used.ns, kPlayed.ns / 3);
}

/// One thread that computes, and the other core is free.
TEST(YieldModel, OneThreadThatComputesIsNotWaitedForAtEachMessage) {
  EXPECT_GE(played(Manner::kOurs, kShort, {0, 1, 0}), 60'000u);
}

TEST(YieldModel, PeersOnOneCoreHandItOverAtOnce) {
  EXPECT_GE(played(Manner::kOurs, kShort, {0, 0, 1, 1}), static_cast<uint64_t>(kPlayed.ns / 20'000));
}

/// A message may take a peer as long as a time slice.
TEST(YieldModel, PeersOnOneCoreHandItOverAtOnceHoweverLongTheirMessagesAre) {
  for (const Duration message : {kMiddling, kLong, milliseconds(1), milliseconds(5)})
    EXPECT_GE(played(Manner::kOurs, message, {0, 0}) * 10, played(Manner::kYieldsAtEachPoll, message, {0, 0}) * 9)
        << message.ns;
}

/// Then nothing helps but others' slices.
TEST(YieldModel, PeersOnOneCoreWithAThreadThatComputes) {
  for (const Duration message : {kShort, kMiddling, kLong})
    EXPECT_GE(played(Manner::kOurs, message, {0, 0, 0}) * 10, played(Manner::kYieldsAtEachPoll, message, {0, 0, 0}) * 8)
        << message.ns;
}

/// As a compiler or a job of the system's does. What is left of it is no more polling on, each for the other's.
TEST(YieldModel, WhatPassesByIsForgottenSoon) {
  for (uint64_t seed = 1; seed <= 16; seed++) {
    World world(seed, kSlice);
    world.add_peers(Manner::kOurs, kShort);
    world.add(Manner::kComputes);
    world.place({0, 0, 1});
    const uint64_t before = world.run(milliseconds(20));
    world.place({0, 0, 0});
    world.run(milliseconds(8));
    world.place({0, 0, 1});
    world.run(milliseconds(20));
    EXPECT_GE(world.run(milliseconds(10)) * 2 * 10, before * 9) << "seed " << seed;
  }
}

/// Threads that poll may wait for the very one that computes on their core, whose share is what counts then.
TEST(YieldModel, WhoIsWaitedForOnThisCoreKeepsMostOfIt) {
  struct {
    size_t waiting;
    int percent;
  } const rows[] = {{1, 90}, {3, 70}, {7, 40}};
  for (const auto& row : rows) {
    World world(1, kSlice);
    Thread& computes = world.add(Manner::kComputes);
    for (size_t i = 0; i < row.waiting; i++) world.add(Manner::kOurs);
    world.place(std::vector<int>(row.waiting + 1, 0));
    world.run(kPlayed);
    EXPECT_GE(computes.used.ns * 100, kPlayed.ns * row.percent) << row.waiting << " wait";
  }
}

/// The kernel moves threads about; what runs beside them comes and goes.
uint64_t drawn(uint64_t seed, Duration message, Manner manner) {
  std::mt19937_64 random(seed);
  const auto below = [&random](uint64_t n) { return random() % n; };
  const auto slice = microseconds(static_cast<int64_t>(1000 + below(7000)));
  const size_t computing = below(4);
  World world(1, slice);
  world.add_peers(manner, message);
  for (size_t i = 0; i < computing; i++) world.add(Manner::kComputes);
  for (int i = 0; i < 8; i++) {
    std::vector<int> where{static_cast<int>(below(2)), static_cast<int>(below(2))};
    for (size_t thread = 0; thread < computing; thread++)
      where.push_back(static_cast<int>(below(3)) - 1);  // a third of them sleep
    world.place(where);
    world.run(milliseconds(static_cast<int64_t>(5 + below(40))));
  }
  return world.messages();
}

TEST(YieldModel, DrawnCoresAndCompanies) {
  for (const Duration message : {kShort, kMiddling, kLong}) {
    uint64_t ours = 0;
    uint64_t others = 0;
    for (uint64_t seed = 1; seed <= 16; seed++) {
      const uint64_t messages = drawn(seed, message, Manner::kOurs);
      const uint64_t yardstick =
          std::max(drawn(seed, message, Manner::kSpins), drawn(seed, message, Manner::kYieldsAtEachPoll));
      EXPECT_GE(messages * 10, yardstick * 4) << "seed " << seed << ", messages of " << message.ns;
      ours += messages;
      others += yardstick;
    }
    EXPECT_GE(ours * 10, others * 6) << "messages of " << message.ns;
  }
}

}  // namespace
}  // namespace uroce::yield_model
