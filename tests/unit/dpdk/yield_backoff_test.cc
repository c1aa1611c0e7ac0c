// A loop that polls on a CPU of its own hardly yields; one that shares its CPU yields at every poll, and less often
// beside threads that keep it for time slices.
#include "dpdk/yield_backoff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "dpdk/clock.h"

namespace uroce {
namespace {

constexpr Instant kStart{1'000'000'000};
// How long a yield takes that finds nobody, one to a thread that polls, and one to a thread that computes.
constexpr Duration kAlone = nanoseconds(600);
constexpr Duration kOthersRan = microseconds(5);
constexpr Duration kSlice = milliseconds(3);

struct Polled {
  int yields = 0;
  Duration longest{0};  // from one yield to the next
};

/// A program that polls in vain for `how_long`, and yields whenever it should.
Polled poll_in_vain(YieldBackoff& backoff, Instant& now, Duration how_long, Duration yield_takes) {
  Polled polled;
  Instant last = now;
  for (const Instant end = now + how_long; now < end; now = now + nanoseconds(30)) {
    if (!backoff.on_nothing(now)) continue;
    polled.yields++;
    polled.longest = std::max(polled.longest, now - last);
    now = now + yield_takes;
    last = now;
    backoff.on_yielded(now, yield_takes, false);
  }
  return polled;
}

TEST(YieldBackoffTest, TheFirstPollInVainYields) {
  YieldBackoff backoff;
  EXPECT_TRUE(backoff.on_nothing(kStart));
}

TEST(YieldBackoffTest, AfterWorkThereIsPatience) {
  YieldBackoff backoff;
  backoff.on_work(kStart);
  EXPECT_FALSE(backoff.on_nothing(kStart));
  EXPECT_FALSE(backoff.on_nothing(kStart + nanoseconds(3999)));
  EXPECT_TRUE(backoff.on_nothing(kStart + nanoseconds(4000)));
}

TEST(YieldBackoffTest, WhereOthersRunEveryPollYields) {
  YieldBackoff backoff;
  Instant now = kStart;
  for (int i = 0; i < 100; i++) {
    now = now + microseconds(5);
    backoff.on_yielded(now, kOthersRan, false);
    ASSERT_TRUE(backoff.on_nothing(now)) << i;
  }
}

/// The kernel knows of threads that ran too shortly to be noticed.
TEST(YieldBackoffTest, AShortYieldToAnotherCountsWhenTheKernelSaysSo) {
  YieldBackoff backoff;
  backoff.on_yielded(kStart, kOthersRan, false);
  backoff.on_yielded(kStart + milliseconds(1), kAlone, true);
  EXPECT_TRUE(backoff.on_nothing(kStart + milliseconds(1)));
}

/// In whole microseconds.
constexpr Duration slice_by(int64_t part) { return microseconds((kSlice.ns / part + 999) / 1000); }

/// How long a thread polls on, which has just got its CPU back after a slice.
Duration polls_on(YieldBackoff& backoff, Instant& now) {
  const Instant begun = now;
  while (!backoff.on_nothing(now)) now = now + microseconds(1);
  const Duration polled = now - begun;
  now = now + kSlice;
  backoff.on_yielded(now, kSlice, false);
  return polled;
}

TEST(YieldBackoffTest, AfterATimeSliceItPollsForAsLong) {
  YieldBackoff backoff;
  Instant now = kStart;
  backoff.on_yielded(now, kSlice, false);
  EXPECT_EQ(polls_on(backoff, now), kSlice);
}

TEST(YieldBackoffTest, WhatWasInVainIsHalvedDownToASixteenth) {
  YieldBackoff backoff;
  Instant now = kStart;
  backoff.on_yielded(now, kSlice, false);
  for (const int64_t part : {1, 2, 4, 8, 16, 16, 16}) EXPECT_EQ(polls_on(backoff, now), slice_by(part));
}

/// Something comes `times` times to a thread that polls on for a sixteenth of a slice.
void finds(YieldBackoff& backoff, Instant& now, int times) {
  backoff.on_yielded(now, kSlice, false);
  for (int i = 0; i < 5; i++) polls_on(backoff, now);
  for (int i = 0; i < times; i++) {
    EXPECT_FALSE(backoff.on_nothing(now));
    backoff.on_work(now + microseconds(1));
    now = now + microseconds(2);
  }
  polls_on(backoff, now);
}

/// The sender has another CPU, since this thread has kept this one.
TEST(YieldBackoffTest, WhatComesAfterPollsInVainMakesTheNextWhole) {
  YieldBackoff backoff;
  Instant now = kStart;
  finds(backoff, now, 2);
  EXPECT_EQ(polls_on(backoff, now), kSlice);
}

TEST(YieldBackoffTest, OnceIsChance) {
  YieldBackoff backoff;
  Instant now = kStart;
  finds(backoff, now, 1);
  EXPECT_EQ(polls_on(backoff, now), slice_by(16));
}

/// As much as pays for a sixteenth of a slice does not pay for a whole one.
TEST(YieldBackoffTest, ALongerTimeHasToPayMore) {
  for (const int64_t times : {kSlice.ns / YieldBackoff::kPaidFor.ns - 1, kSlice.ns / YieldBackoff::kPaidFor.ns}) {
    YieldBackoff backoff;
    Instant now = kStart;
    backoff.on_yielded(now, kSlice, false);
    for (int64_t i = 0; i < times; i++) {
      backoff.on_nothing(now);
      backoff.on_work(now + microseconds(1));
      now = now + microseconds(2);
    }
    polls_on(backoff, now);
    EXPECT_EQ(polls_on(backoff, now), slice_by(times * YieldBackoff::kPaidFor.ns < kSlice.ns ? 2 : 1));
  }
}

/// A peer on this CPU has sent it while it had the CPU, and needs it for the next one.
TEST(YieldBackoffTest, WhatWasThereAtOnceDoesNot) {
  YieldBackoff backoff;
  Instant now = kStart;
  backoff.on_yielded(now, kSlice, false);
  for (const int64_t part : {1, 2, 4, 8, 16}) {
    for (int i = 0; i < 3; i++) backoff.on_work(now);
    EXPECT_EQ(polls_on(backoff, now), slice_by(part));
  }
}

/// The kernel has given the CPU to a peer on it in the meantime, and taken it back.
TEST(YieldBackoffTest, NorDoesWhatComesAfterOthersMayHaveRun) {
  YieldBackoff backoff;
  Instant now = kStart;
  backoff.on_yielded(now, kSlice, false);
  for (int i = 0; i < 50; i++) {
    backoff.on_nothing(now);
    now = now + microseconds(10);
    backoff.on_work(now);
  }
  polls_on(backoff, now);
  EXPECT_EQ(polls_on(backoff, now), slice_by(2));
}

/// The kernel ends a slice without being asked.
TEST(YieldBackoffTest, TimeThatItIsAwayIsNoTimeThatItPolls) {
  YieldBackoff backoff;
  Instant now = kStart;
  backoff.on_yielded(now, kSlice, false);
  poll_in_vain(backoff, now, milliseconds(1), kSlice);
  now = now + milliseconds(20);
  EXPECT_FALSE(backoff.on_nothing(now));
  EXPECT_EQ(poll_in_vain(backoff, now, microseconds(1900), kSlice).yields, 0);
  EXPECT_EQ(poll_in_vain(backoff, now, microseconds(200), kSlice).yields, 1);
}

/// One that does something else between two polls yields in the end, and then soon.
TEST(YieldBackoffTest, WhoPollsRarelyYieldsToo) {
  YieldBackoff backoff;
  Instant now = kStart;
  backoff.on_yielded(now, kSlice, false);
  for (const int64_t part : {1, 2, 4, 8, 16, 16}) {
    int polls = 1;
    for (now = now + milliseconds(1); !backoff.on_nothing(now); now = now + milliseconds(1)) polls++;
    EXPECT_LE(polls, kSlice.ns / part / YieldBackoff::kAway.ns + 1);
    backoff.on_yielded(now, kSlice, false);
  }
}

/// What a thread has found out of its CPU is not true of another thread's.
TEST(YieldBackoffTest, EachThreadHasItsOwn) {
  YieldBackoff* own = &YieldBackoff::of_this_thread();
  EXPECT_EQ(own, &YieldBackoff::of_this_thread());
  std::thread([own] { EXPECT_NE(own, &YieldBackoff::of_this_thread()); }).join();
}

/// A thread that polls two endpoints reads the clocks of both.
TEST(YieldBackoffTest, TheClocksOfAProcessShowTheSameTime) {
  TscClock first;
  first.start();
  const Instant begun = first.now();
  while (first.now() == begun) {
  }
  TscClock second;
  second.start();
  const Instant before = first.now();
  const Instant between = second.now();
  EXPECT_LE(before, between);
  EXPECT_LE(between, first.now());
}

/// Before anything is known of the CPU, it is assumed to be shared.
TEST(YieldBackoffTest, TheFirstYieldIsFollowedByAnother) {
  YieldBackoff backoff;
  backoff.on_yielded(kStart, kAlone, false);
  EXPECT_TRUE(backoff.on_nothing(kStart));
}

TEST(YieldBackoffTest, TheLongerNobodyRanTheLaterTheNextYield) {
  YieldBackoff backoff;
  backoff.on_yielded(kStart, kOthersRan, false);
  struct {
    Duration alone_for;
    Duration pause;
  } const steps[] = {{nanoseconds(800), nanoseconds(100)},   {microseconds(8), microseconds(1)},
                     {microseconds(80), microseconds(10)},   {microseconds(400), microseconds(50)},
                     {microseconds(1000), microseconds(50)}, {milliseconds(3'600'000), microseconds(50)}};
  for (const auto& step : steps) {
    const Instant now = kStart + step.alone_for;
    backoff.on_yielded(now, kAlone, false);
    EXPECT_FALSE(backoff.on_nothing(now + step.pause + nanoseconds(-1))) << step.alone_for.ns;
    EXPECT_TRUE(backoff.on_nothing(now + step.pause)) << step.alone_for.ns;
  }
}

/// A peer that sleeps between two messages, and needs the CPU when it wakes up.
TEST(YieldBackoffTest, WhoComesBackWaitsForAPartOfItsAbsence) {
  for (const Duration away : {microseconds(15), microseconds(50), microseconds(300), milliseconds(20)}) {
    YieldBackoff backoff;
    Instant now = kStart;
    backoff.on_yielded(now, kOthersRan, false);
    const Polled polled = poll_in_vain(backoff, now, away, kAlone);
    EXPECT_LE(polled.longest, std::min(nanoseconds(away.ns / 8 + 100), microseconds(51))) << away.ns;
  }
}

TEST(YieldBackoffTest, WhoComesBackIsNoticedAtTheNextYield) {
  YieldBackoff backoff;
  Instant now = kStart;
  poll_in_vain(backoff, now, milliseconds(10), kAlone);
  backoff.on_yielded(now, kOthersRan, false);
  EXPECT_EQ(poll_in_vain(backoff, now, milliseconds(10), kOthersRan).longest, nanoseconds(30));
}

/// A program that finds something now and then must not forget what is known of its CPU.
TEST(YieldBackoffTest, WorkTellsNothingOfTheCpu) {
  YieldBackoff alone;
  Instant now = kStart;
  poll_in_vain(alone, now, milliseconds(1), kAlone);
  alone.on_work(now);
  EXPECT_LE(poll_in_vain(alone, now, milliseconds(1), kAlone).yields, 21);

  YieldBackoff shared;
  shared.on_yielded(now, kOthersRan, false);
  shared.on_work(now);
  EXPECT_FALSE(shared.on_nothing(now + nanoseconds(3999)));
  EXPECT_TRUE(shared.on_nothing(now + microseconds(4)));
  shared.on_yielded(now + microseconds(9), kOthersRan, false);
  EXPECT_TRUE(shared.on_nothing(now + microseconds(9)));
}

/// Work does not bring a later yield forward.
TEST(YieldBackoffTest, WorkDoesNotShortenAPause) {
  YieldBackoff backoff;
  backoff.on_yielded(kStart, kOthersRan, false);
  const Instant now = kStart + milliseconds(1);
  backoff.on_yielded(now, kAlone, false);
  backoff.on_work(now);
  EXPECT_FALSE(backoff.on_nothing(now + nanoseconds(49'999)));
  EXPECT_TRUE(backoff.on_nothing(now + microseconds(50)));
}

/// Its purpose: with no other thread on the CPU few polls yield, but one that appears is noticed.
TEST(YieldBackoffTest, ASecondOfPollsHasFewYields) {
  YieldBackoff backoff;
  Instant now = kStart;
  const int yields = poll_in_vain(backoff, now, milliseconds(1000), kAlone).yields;
  EXPECT_LE(yields, 20'100);
  EXPECT_GE(yields, 19'000);
}

}  // namespace
}  // namespace uroce
