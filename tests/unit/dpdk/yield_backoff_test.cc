// A loop that polls on a CPU of its own hardly yields; one that shares its CPU yields at every poll.
#include "dpdk/yield_backoff.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr bool kAlone = false;
constexpr bool kOthersRan = true;

struct Polled {
  int yields = 0;
  Duration longest{0};  // from one yield to the next
};

/// A program that polls in vain for `how_long`, and yields whenever it should.
Polled poll_in_vain(YieldBackoff& backoff, Instant& now, Duration how_long, bool others_run) {
  Polled polled;
  Instant last = now;
  for (const Instant end = now + how_long; now < end; now = now + nanoseconds(30)) {
    if (!backoff.due(now)) continue;
    polled.yields++;
    polled.longest = std::max(polled.longest, now - last);
    now = now + (others_run ? microseconds(5) : nanoseconds(600));
    last = now;
    backoff.on_yielded(now, others_run);
  }
  return polled;
}

TEST(YieldBackoffTest, TheFirstPollInVainYields) {
  const YieldBackoff backoff;
  EXPECT_TRUE(backoff.due(kStart));
}

TEST(YieldBackoffTest, AfterWorkThereIsPatience) {
  YieldBackoff backoff;
  backoff.on_work(kStart);
  EXPECT_FALSE(backoff.due(kStart));
  EXPECT_FALSE(backoff.due(kStart + nanoseconds(3999)));
  EXPECT_TRUE(backoff.due(kStart + nanoseconds(4000)));
}

TEST(YieldBackoffTest, WhereOthersRunEveryPollYields) {
  YieldBackoff backoff;
  Instant now = kStart;
  for (int i = 0; i < 100; i++) {
    now = now + microseconds(5);
    backoff.on_yielded(now, kOthersRan);
    ASSERT_TRUE(backoff.due(now)) << i;
  }
}

/// Before anything is known of the CPU, it is assumed to be shared.
TEST(YieldBackoffTest, TheFirstYieldIsFollowedByAnother) {
  YieldBackoff backoff;
  backoff.on_yielded(kStart, kAlone);
  EXPECT_TRUE(backoff.due(kStart));
}

TEST(YieldBackoffTest, TheLongerNobodyRanTheLaterTheNextYield) {
  YieldBackoff backoff;
  backoff.on_yielded(kStart, kOthersRan);
  struct {
    Duration alone_for;
    Duration pause;
  } const steps[] = {{nanoseconds(800), nanoseconds(100)},   {microseconds(8), microseconds(1)},
                     {microseconds(80), microseconds(10)},   {microseconds(400), microseconds(50)},
                     {microseconds(1000), microseconds(50)}, {milliseconds(3'600'000), microseconds(50)}};
  for (const auto& step : steps) {
    const Instant now = kStart + step.alone_for;
    backoff.on_yielded(now, kAlone);
    EXPECT_FALSE(backoff.due(now + step.pause + nanoseconds(-1))) << step.alone_for.ns;
    EXPECT_TRUE(backoff.due(now + step.pause)) << step.alone_for.ns;
  }
}

/// A peer that sleeps between two messages, and needs the CPU when it wakes up.
TEST(YieldBackoffTest, WhoComesBackWaitsForAPartOfItsAbsence) {
  for (const Duration away : {microseconds(15), microseconds(50), microseconds(300), milliseconds(20)}) {
    YieldBackoff backoff;
    Instant now = kStart;
    backoff.on_yielded(now, kOthersRan);
    const Polled polled = poll_in_vain(backoff, now, away, kAlone);
    EXPECT_LE(polled.longest, std::min(nanoseconds(away.ns / 8 + 100), microseconds(51))) << away.ns;
  }
}

TEST(YieldBackoffTest, WhoComesBackIsNoticedAtTheNextYield) {
  YieldBackoff backoff;
  Instant now = kStart;
  poll_in_vain(backoff, now, milliseconds(10), kAlone);
  backoff.on_yielded(now, kOthersRan);
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
  shared.on_yielded(now, kOthersRan);
  shared.on_work(now);
  EXPECT_FALSE(shared.due(now + nanoseconds(3999)));
  EXPECT_TRUE(shared.due(now + microseconds(4)));
  shared.on_yielded(now + microseconds(9), kOthersRan);
  EXPECT_TRUE(shared.due(now + microseconds(9)));
}

/// Work does not bring a later yield forward.
TEST(YieldBackoffTest, WorkDoesNotShortenAPause) {
  YieldBackoff backoff;
  backoff.on_yielded(kStart, kOthersRan);
  const Instant now = kStart + milliseconds(1);
  backoff.on_yielded(now, kAlone);
  backoff.on_work(now);
  EXPECT_FALSE(backoff.due(now + nanoseconds(49'999)));
  EXPECT_TRUE(backoff.due(now + microseconds(50)));
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
