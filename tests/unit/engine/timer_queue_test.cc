#include "engine/timer_queue.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace uroce {
namespace {

constexpr Instant at(int64_t ns) { return {ns}; }

TEST(TimerQueue, EmptyNeverFires) {
  TimerQueue queue(4);
  EXPECT_EQ(queue.next(), Instant::never());
  EXPECT_EQ(queue.pop_due(at(1000000)), TimerQueue::kNone);
}

TEST(TimerQueue, FiresInOrderAndOnlyWhenDue) {
  TimerQueue queue(4);
  queue.arm(0, at(30));
  queue.arm(1, at(10));
  queue.arm(2, at(20));
  EXPECT_EQ(queue.next(), at(10));
  EXPECT_EQ(queue.pop_due(at(9)), TimerQueue::kNone);
  EXPECT_EQ(queue.pop_due(at(25)), 1u);
  EXPECT_EQ(queue.pop_due(at(25)), 2u);
  EXPECT_EQ(queue.pop_due(at(25)), TimerQueue::kNone);
  EXPECT_EQ(queue.pop_due(at(30)), 0u);
  EXPECT_EQ(queue.next(), Instant::never());
}

TEST(TimerQueue, EarlierMovesLaterStays) {
  TimerQueue queue(2);
  queue.arm(0, at(50));
  queue.arm(0, at(90));  // a later time: it fires at 50, and its owner arms it again
  EXPECT_EQ(queue.next(), at(50));
  queue.arm(0, at(20));
  EXPECT_EQ(queue.next(), at(20));
  EXPECT_EQ(queue.pop_due(at(20)), 0u);
  EXPECT_EQ(queue.pop_due(at(100)), TimerQueue::kNone);
}

TEST(TimerQueue, CancelAndNever) {
  TimerQueue queue(3);
  queue.arm(0, Instant::never());
  EXPECT_EQ(queue.next(), Instant::never());
  queue.arm(1, at(5));
  queue.arm(2, at(6));
  queue.cancel(1);
  queue.cancel(1);
  queue.cancel(0);
  EXPECT_EQ(queue.next(), at(6));
  EXPECT_EQ(queue.pop_due(at(6)), 2u);
}

TEST(TimerQueue, AgreesWithAModel) {
  constexpr uint32_t kOwners = 50;
  SeededRandom random(31);
  TimerQueue queue(kOwners);
  std::map<uint32_t, int64_t> model;
  int64_t now = 0;
  for (int step = 0; step < 300000; step++) {
    const uint32_t owner = random.below(kOwners);
    switch (random.below(4)) {
      case 0:
      case 1: {
        const int64_t when = now + random.below(1000);
        queue.arm(owner, at(when));
        const auto [entry, fresh] = model.try_emplace(owner, when);
        if (!fresh) entry->second = std::min(entry->second, when);
        break;
      }
      case 2:
        queue.cancel(owner);
        model.erase(owner);
        break;
      default: {
        now += random.below(200);
        int64_t previous = 0;
        for (uint32_t due = queue.pop_due(at(now)); due != TimerQueue::kNone; due = queue.pop_due(at(now))) {
          ASSERT_TRUE(model.contains(due));
          ASSERT_LE(model[due], now);
          ASSERT_GE(model[due], previous) << "out of order";
          previous = model[due];
          model.erase(due);
        }
        for (const auto& [left, when] : model) ASSERT_GT(when, now) << left;
      }
    }
    int64_t earliest = Instant::never().ns;
    for (const auto& [left, when] : model) earliest = std::min(earliest, when);
    ASSERT_EQ(queue.next(), at(earliest));
  }
}

}  // namespace
}  // namespace uroce
