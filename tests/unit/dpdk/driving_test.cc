// Who drives: the decisions of an endpoint's thread, in virtual time.
#include "dpdk/driving.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

using Do = Driving::Do;

constexpr Instant kBegin{1'000'000'000};

class DrivingTest : public testing::Test {
 protected:
  DrivingTest() { driving_.set_wakes(Driving::Wakes::kLeftLying); }
  /// A program that polls its CQ for `how_long`.
  void poll(Duration how_long) {
    for (const Instant end = now_ + how_long; now_ < end; now_ = now_ + microseconds(1)) driving_.note_driven(now_);
  }
  void pass(Duration time) { now_ = now_ + time; }
  Driving::Next burst(uint32_t work) {
    return driving_.after({.at = now_, .work = work, .next_timeout = Instant::never()});
  }
  Driving::Next before(bool called = false) const { return driving_.before(now_, called); }
  /// The thread makes turns when none were made, and finds something or not.
  void come(bool rung, bool found) { driving_.note_turns(now_, rung, found); }

  Driving driving_{Progress::kAuto};
  Instant now_ = kBegin;
};

TEST_F(DrivingTest, WhoPollsIsLeftAloneForLongerAndLonger) {
  driving_.note_driven(now_);
  EXPECT_EQ(before(), (Driving::Next{Do::kStandBack, Driving::kLookFirst}));
  poll(milliseconds(4));
  EXPECT_EQ(before().what, Do::kStandBack);
  EXPECT_NEAR(static_cast<double>(before().longest.ns), 2e6, 2e4) << "half as long as it has polled";
  poll(milliseconds(40));
  EXPECT_EQ(before(), (Driving::Next{Do::kStandBack, Driving::kLookLast}));
}

/// A second of polling costs the program some hundred wake-ups, not thousands.
TEST_F(DrivingTest, ASecondOfPollingIsDisturbedAHundredTimes) {
  int looks = 0;
  for (const Instant end = now_ + milliseconds(1000); now_ < end; looks++) {
    driving_.note_driven(now_);
    const Driving::Next next = before();
    ASSERT_EQ(next.what, Do::kStandBack) << looks;
    poll(next.longest);
  }
  EXPECT_LE(looks, 110);
}

TEST_F(DrivingTest, AfterALongPauseItBeginsAnew) {
  poll(milliseconds(100));
  pass(milliseconds(30));
  driving_.note_driven(now_);
  EXPECT_EQ(before(), (Driving::Next{Do::kStandBack, Driving::kLookFirst}));
}

/// A program that computes, and polls now and then.
TEST_F(DrivingTest, WhoMakesACallNowAndThenDoesNotPoll) {
  poll(milliseconds(100));
  for (int i = 0; i < 20; i++) {
    pass(milliseconds(3));
    driving_.note_driven(now_);
  }
  EXPECT_EQ(before(), (Driving::Next{Do::kStandBack, Driving::kLookFirst}));
  pass(microseconds(151));
  EXPECT_EQ(burst(0).what, Do::kSleep);
}

TEST_F(DrivingTest, WhoStopsIsNoticedAtTheNextLook) {
  poll(milliseconds(100));
  pass(microseconds(101));
  EXPECT_EQ(before().what, Do::kDrive);
}

TEST_F(DrivingTest, WhoWaitsIsServedAtOnce) {
  poll(milliseconds(100));
  driving_.note_waits();
  driving_.note_told(now_);
  EXPECT_EQ(before().what, Do::kDrive);
  EXPECT_EQ(burst(0).what, Do::kYield);
  pass(Driving::kAwake);
  EXPECT_EQ(burst(0), (Driving::Next{Do::kSleep, Driving::kLongest})) << "each frame wakes it";
}

TEST_F(DrivingTest, WhoIsRungHasALook) {
  poll(milliseconds(1));
  EXPECT_EQ(before(true).what, Do::kDrive);
}

/// A polling program that pauses for a moment may have lost its CPU: its thread stands back for as long as that may be.
TEST_F(DrivingTest, WhoLosesItsCpuKeepsTheEngine) {
  poll(milliseconds(100));
  pass(milliseconds(1));
  const Driving::Next next = burst(0);
  EXPECT_EQ(next.what, Do::kStandBack);
  EXPECT_EQ(next.longest, nanoseconds(2'999'000)) << "its last call was a microsecond before that";
  const Driving::Next due = driving_.after({.at = now_, .next_timeout = now_ + microseconds(-7)});
  EXPECT_EQ(due, (Driving::Next{Do::kStandBack, Driving::kShortest})) << "what is due waits for the next turn";
  pass(Driving::kPreempted);
  EXPECT_EQ(burst(0).what, Do::kSleep) << "it does something else";
}

TEST_F(DrivingTest, FramesLeftLyingAgainAndAgainAreThoseOfOneThatPollsItsMemory) {
  poll(milliseconds(10));
  for (int i = 0; i < 3; i++) {
    EXPECT_FALSE(driving_.polls_memory(now_)) << i;
    pass(microseconds(120));
    come(true, true);
    pass(microseconds(5));
    driving_.note_driven(now_);
  }
  EXPECT_TRUE(driving_.polls_memory(now_));
  EXPECT_EQ(before().what, Do::kNap) << "its calls do not send the thread away";
  pass(microseconds(6));
  EXPECT_EQ(before().what, Do::kDrive);
}

TEST_F(DrivingTest, FramesLeftLyingOnceAreNot) {
  poll(milliseconds(10));
  pass(microseconds(120));
  for (int i = 0; i < 20; i++) come(true, true);  // the program is away all the time
  EXPECT_FALSE(driving_.polls_memory(now_));
  for (int i = 0; i < 20; i++) {
    poll(milliseconds(3));
    pass(microseconds(120));
    come(true, true);  // now and then
  }
  EXPECT_FALSE(driving_.polls_memory(now_));
}

TEST_F(DrivingTest, ItCountsAsThatForAsLongAsTheThreadFindsItsFrames) {
  for (int i = 0; i < 3; i++) {
    driving_.note_driven(now_);
    pass(microseconds(120));
    come(true, true);
  }
  for (int i = 0; i < 1000; i++) {
    driving_.note_driven(now_);
    pass(microseconds(30));
    come(false, true);
    ASSERT_TRUE(driving_.polls_memory(now_)) << i;
  }
  // One that makes many turns before every other frame polls its CQ, even if the thread comes first each time.
  int naps = 0;
  for (; driving_.polls_memory(now_) && naps < 1000; naps++) {
    for (int turn = 0; turn < (naps % 2 == 0 ? 15 : 1); turn++) driving_.note_driven(now_);
    pass(microseconds(30));
    come(false, true);
  }
  EXPECT_LE(naps, 170) << "5 ms";
}

TEST_F(DrivingTest, WithoutFramesItCountsAsThatNoMore) {
  for (int i = 0; i < 3; i++) {
    driving_.note_driven(now_);
    pass(microseconds(120));
    come(true, true);
  }
  ASSERT_TRUE(driving_.polls_memory(now_));
  burst(1);
  EXPECT_EQ(burst(0).what, Do::kYield);
  pass(milliseconds(6));
  EXPECT_EQ(burst(0).what, Do::kSleep);
  EXPECT_FALSE(driving_.polls_memory(now_));
}

TEST_F(DrivingTest, WhereYieldsAreLongAPassiveTargetSleepsInstead) {
  burst(1);
  EXPECT_EQ(burst(0).what, Do::kYield);
  driving_.note_yielded(now_, now_ + milliseconds(3));
  pass(milliseconds(3));
  EXPECT_EQ(burst(1).what, Do::kSleep);
  pass(milliseconds(1));
  EXPECT_EQ(burst(1).what, Do::kYield) << "it is tried again";
  for (int i = 0; i < 4; i++) {
    driving_.note_yielded(now_, now_ + milliseconds(3));
    pass(milliseconds(3));
    while (driving_.crowded(now_)) pass(microseconds(100));
  }
  driving_.note_yielded(now_, now_ + milliseconds(3));
  pass(milliseconds(18));
  EXPECT_TRUE(driving_.crowded(now_)) << "after twice the time each time";
}

/// A program on a CPU makes no calls: waking the thread for each frame costs more than naps.
TEST_F(DrivingTest, WhereYieldsAreLongAndTheProgramComputesItNaps) {
  driving_.note_yielded(now_, now_ + milliseconds(3));
  pass(milliseconds(3));
  const auto busy = [&](uint32_t work) {
    return driving_.after({.at = now_, .work = work, .next_timeout = Instant::never(), .program_busy = true});
  };
  EXPECT_EQ(busy(1), (Driving::Next{Do::kNap, Driving::kCatnap}));
  pass(Driving::kAwake);
  EXPECT_EQ(busy(0).what, Do::kSleep);
}

TEST_F(DrivingTest, WhatWaitsToBeSentKeepsItAwake) {
  pass(milliseconds(10));
  const Driving::Next next =
      driving_.after({.at = now_, .next_timeout = Instant::never(), .waiting = true, .has_qps = true});
  EXPECT_EQ(next.what, Do::kNap);
  EXPECT_LE(next.longest, Driving::kSleepMin);
}

TEST_F(DrivingTest, WhereNothingWakesItLooksOften) {
  driving_.set_wakes(Driving::Wakes::kNever);
  poll(milliseconds(100));
  EXPECT_EQ(before(), (Driving::Next{Do::kNap, Driving::kLookUnwoken}));
  pass(milliseconds(10));
  Duration longest{0};
  for (int i = 0; i < 100; i++) {
    const Driving::Next next = driving_.after({.at = now_, .next_timeout = Instant::never(), .has_qps = true});
    EXPECT_EQ(next.what, Do::kNap);
    longest = std::max(longest, next.longest);
    pass(next.longest);
  }
  EXPECT_EQ(longest, Driving::kSleepMax);
  EXPECT_EQ(driving_.after({.at = now_, .next_timeout = now_ + microseconds(20), .has_qps = true}).longest,
            microseconds(20));
}

TEST_F(DrivingTest, WhereOnlyEachFrameWakesItLooksWhileTheProgramPolls) {
  driving_.set_wakes(Driving::Wakes::kAtOnce);
  poll(milliseconds(100));
  EXPECT_EQ(before(), (Driving::Next{Do::kNap, Driving::kLookUnwoken}));
  pass(microseconds(200));
  EXPECT_EQ(burst(0), (Driving::Next{Do::kSleep, Driving::kLongest}));
}

TEST(DrivingModes, InlineTheThreadOnlyLooksAfterThings) {
  const Driving driving{Progress::kInline};
  EXPECT_EQ(driving.before(kBegin, false), (Driving::Next{Do::kNap, Driving::kLongest}));
}

TEST(DrivingModes, ThreadItAlwaysDrives) {
  Driving driving{Progress::kThread};
  driving.set_wakes(Driving::Wakes::kLeftLying);
  driving.note_driven(kBegin);
  EXPECT_EQ(driving.before(kBegin, false).what, Do::kDrive);
  EXPECT_EQ(driving.after({.at = kBegin + milliseconds(100), .next_timeout = Instant::never()}).what, Do::kYield);
}

}  // namespace
}  // namespace uroce
