// Programs that poll for each other's messages, played on two cores that they share with threads that compute, in
// virtual time. When they yield is YieldBackoff's; the scheduler is a model that hands a core round, for time slices
// that are drawn: slices of one length would keep two cores in step, or out of step, for ever. The yardstick is a
// program that does not yield at all, as one that polls a socket of the kernel's.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "dpdk/yield_backoff.h"

namespace uroce::yield_model {
namespace {

constexpr Duration kPoll = nanoseconds(100);
constexpr Duration kMessage = nanoseconds(800);  // to take one, and to send another
constexpr Duration kCall = nanoseconds(600);     // of the kernel
constexpr Duration kSwitch = microseconds(2);    // from one thread to another

enum class Manner : uint8_t { kComputes, kSpins, kYields };

struct Thread {
  explicit Thread(Manner does) : manner(does) {}

  /// One step at `now`. Whether it gives up the core.
  bool step(Instant& now) {
    const Instant begun = now;
    const bool yields = manner != Manner::kComputes && poll(now);
    if (manner == Manner::kComputes) now = now + microseconds(10);
    used.ns += (now - begun).ns;
    return yields;
  }
  bool poll(Instant& now) {
    if (yielded) backoff.on_yielded(now, now - yielded_at, false);
    yielded = false;
    if (message_at <= now) {
      message_at = Instant::never();
      now = now + kMessage;
      backoff.on_work(now);
      messages++;
      peer->message_at = now;
      return false;
    }
    now = now + kPoll;
    if (!backoff.on_nothing(now) || manner == Manner::kSpins) return false;
    yielded = true;
    yielded_at = now;
    now = now + kCall;
    return true;
  }

  Manner manner;
  YieldBackoff backoff;
  Thread* peer = nullptr;
  Instant message_at = Instant::never();
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

/// Two programs that play ping-pong, and others that compute.
class World {
 public:
  World(Manner manner, Duration slice, size_t computing) : slice_(slice) {
    for (size_t i = 0; i < computing + 2; i++)
      threads_.push_back(std::make_unique<Thread>(i < 2 ? manner : Manner::kComputes));
    first().peer = &second();
    second().peer = &first();
    first().message_at = {0};
  }
  Thread& first() { return *threads_[0]; }
  Thread& second() { return *threads_[1]; }
  /// Thread `i` goes to core `where[i]`.
  void place(const std::vector<int>& where) {
    for (Core& core : cores_) core.threads.clear();
    for (size_t i = 0; i < threads_.size(); i++) cores_[where[i]].threads.push_back(threads_[i].get());
  }
  void run(Duration time) {
    const Instant end = std::max(cores_[0].now, cores_[1].now) + time;
    while (true) {
      Core& core = cores_[0].now <= cores_[1].now ? cores_[0] : cores_[1];
      if (core.now >= end) return;
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

  std::mt19937_64 random_{1};
  const Duration slice_;  // a typical one
  std::vector<std::unique_ptr<Thread>> threads_;
  std::array<Core, 2> cores_;
};

constexpr Duration kSlice = milliseconds(4);
constexpr Duration kPlayed = milliseconds(600);

TEST(YieldModel, BesideThreadsThatComputeAProgramKeepsItsShare) {
  World world(Manner::kYields, kSlice, 2);
  world.place({0, 1, 0, 1});
  world.run(kPlayed);
  for (const Thread* program : {&world.first(), &world.second()}) EXPECT_GE(program->used.ns, kPlayed.ns / 3);
  EXPECT_GE(world.first().messages, 15'000u) << "alone it would be 300,000";
}

/// One thread that computes, and the other core is free.
TEST(YieldModel, OneThreadThatComputesIsNotWaitedForAtEachMessage) {
  World world(Manner::kYields, kSlice, 1);
  world.place({0, 1, 0});
  world.run(kPlayed);
  EXPECT_GE(world.first().messages, 60'000u);
}

TEST(YieldModel, PeersOnOneCoreHandItOverAtOnce) {
  World world(Manner::kYields, kSlice, 2);
  world.place({0, 0, 1, 1});
  world.run(kPlayed);
  EXPECT_GE(world.first().messages, static_cast<uint64_t>(kPlayed.ns / 20'000));
}

/// Then nothing helps but others' slices. They lose half at most, against a yield at each poll.
TEST(YieldModel, PeersOnOneCoreWithAThreadThatComputes) {
  World world(Manner::kYields, kSlice, 1);
  world.place({0, 0, 0});
  world.run(kPlayed);
  EXPECT_GE(world.first().messages, static_cast<uint64_t>(kPlayed.ns / (4 * kSlice.ns)));
}

/// The kernel moves threads about; what runs beside them comes and goes.
uint64_t drawn(uint64_t seed, Manner manner) {
  std::mt19937_64 random(seed);
  const auto below = [&random](uint64_t n) { return random() % n; };
  const Duration slice = microseconds(static_cast<int64_t>(1000 + below(7000)));
  const size_t computing = below(4);
  World world(manner, slice, computing);
  for (int i = 0; i < 8; i++) {
    std::vector<int> where;
    for (size_t thread = 0; thread < computing + 2; thread++) where.push_back(static_cast<int>(below(2)));
    world.place(where);
    world.run(milliseconds(static_cast<int64_t>(5 + below(40))));
  }
  return world.first().messages;
}

TEST(YieldModel, DrawnCoresAndCompanies) {
  uint64_t yielding = 0;
  uint64_t spinning = 0;
  for (uint64_t seed = 1; seed <= 16; seed++) {
    const uint64_t messages = drawn(seed, Manner::kYields);
    const uint64_t yardstick = drawn(seed, Manner::kSpins);
    EXPECT_GE(messages * 10, yardstick * 4) << "seed " << seed;
    yielding += messages;
    spinning += yardstick;
  }
  EXPECT_GE(yielding, spinning);
}

}  // namespace
}  // namespace uroce::yield_model
