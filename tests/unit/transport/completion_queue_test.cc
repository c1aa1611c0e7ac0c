// When an arming raises an event: at once for completions that no event has announced, else with the next one.
#include "transport/completion_queue.h"

#include <gtest/gtest.h>

#include "sim/recording_observer.h"

namespace uroce {
namespace {

constexpr auto kAny = CompletionQueue::Wake::kAny;
constexpr auto kSolicited = CompletionQueue::Wake::kSolicited;

class ArmTest : public testing::Test {
 protected:
  /// Returns the number of events that it raised; so do the others.
  size_t push(bool solicited = false, WcStatus status = WcStatus::kSuccess, uint32_t qpn = 1) {
    Completion completion;
    completion.qp_num = qpn;
    completion.status = status;
    return raised_by([&] { EXPECT_TRUE(cq_.push(completion, solicited, slots_)); });
  }
  size_t arm(CompletionQueue::Wake wake) {
    return raised_by([&] { cq_.arm(wake); });
  }
  void poll(uint32_t expected) {
    EXPECT_EQ(cq_.drain(expected, [](const Completion&) {}), expected);
  }
  template <typename F>
  size_t raised_by(F&& f) {
    const size_t before = observer_.cq_events.size();
    f();
    return observer_.cq_events.size() - before;
  }

  WorkQueueSlots slots_{64};
  sim::RecordingObserver observer_;
  CompletionQueue cq_{8, observer_};
};

TEST_F(ArmTest, AnEmptyQueueWaitsForTheNextOneAndSaysSoOnce) {
  EXPECT_EQ(arm(kAny), 0u);
  EXPECT_EQ(push(), 1u);
  EXPECT_EQ(push(), 0u);
}

// UCX polls, arms, and sleeps: a completion between the first two is in the queue, and nothing else would wake UCX.
TEST_F(ArmTest, WhatCameBeforeTheArmingIsSaidAtOnce) {
  EXPECT_EQ(push(), 0u);
  EXPECT_EQ(arm(kAny), 1u);
  EXPECT_EQ(push(), 0u);  // there is one event for each arming
}

// ibv_rc_pingpong takes the event, arms, and only then polls.
TEST_F(ArmTest, WhatRaisedAnEventIsNotSaidTwice) {
  arm(kAny);
  EXPECT_EQ(push(), 1u);
  cq_.on_event_taken();
  EXPECT_EQ(arm(kAny), 0u);
  poll(1);
  EXPECT_EQ(push(), 1u);
}

// The program was woken for the first, and finds the second when it polls.
TEST_F(ArmTest, TakingAnEventAnnouncesAllThatIsThere) {
  arm(kAny);
  EXPECT_EQ(push(), 1u);
  EXPECT_EQ(push(), 0u);
  cq_.on_event_taken();
  EXPECT_EQ(arm(kAny), 0u);
  poll(2);
}

TEST_F(ArmTest, WhatCameAfterTheEventWasTakenIsNew) {
  arm(kAny);
  push();
  cq_.on_event_taken();
  EXPECT_EQ(push(), 0u);
  EXPECT_EQ(arm(kAny), 1u);
}

TEST_F(ArmTest, WhatCameAfterAnEventThatNobodyTookIsNew) {
  arm(kAny);
  EXPECT_EQ(push(), 1u);
  EXPECT_EQ(push(), 0u);
  EXPECT_EQ(arm(kAny), 1u);
  EXPECT_EQ(arm(kAny), 0u);  // both are announced now
}

TEST_F(ArmTest, WhatWasPolledIsKnown) {
  push();
  push();
  poll(2);
  EXPECT_EQ(arm(kAny), 0u);
  EXPECT_EQ(push(), 1u);
}

TEST_F(ArmTest, OneThatIsLeftIsEnough) {
  push();
  push();
  poll(1);
  EXPECT_EQ(arm(kAny), 1u);
}

// ibv_rc_pingpong -t polls one batch for each event, and takes an event without a completion for an error.
TEST_F(ArmTest, ABatchEndsBeforeWhatAWaitingEventTellsOf) {
  arm(kAny);
  push();
  cq_.on_event_taken();
  arm(kAny);
  EXPECT_EQ(push(), 1u);
  EXPECT_FALSE(cq_.next_is_unheard());  // its event was taken
  poll(1);
  EXPECT_TRUE(cq_.next_is_unheard());
  cq_.on_event_taken();
  EXPECT_FALSE(cq_.next_is_unheard());
}

TEST_F(ArmTest, WhatAnArmingFoundIsUnheardUntilItsEventIsTaken) {
  arm(kAny);
  push();
  cq_.on_event_taken();
  push();
  EXPECT_EQ(arm(kAny), 1u);
  EXPECT_FALSE(cq_.next_is_unheard());
  poll(1);
  EXPECT_TRUE(cq_.next_is_unheard());
}

// A program may poll and ignore its events.
TEST_F(ArmTest, WhatWasPolledAllTheSameEndsTheWait) {
  arm(kAny);
  push();
  push();
  EXPECT_TRUE(cq_.next_is_unheard());
  poll(1);
  EXPECT_FALSE(cq_.next_is_unheard());
}

// A reset removes the completions of one queue pair; which of the others were announced stays as it was.
TEST_F(ArmTest, WhatARemovalLeavesIsAsNewAsItWas) {
  arm(kAny);
  push(false, WcStatus::kSuccess, 1);
  cq_.on_event_taken();  // the event of the first one
  push(false, WcStatus::kSuccess, 2);
  cq_.remove(2);
  EXPECT_EQ(arm(kAny), 0u);
  EXPECT_EQ(push(false, WcStatus::kSuccess, 1), 1u);
  cq_.on_event_taken();
  push(false, WcStatus::kSuccess, 2);
  push(false, WcStatus::kSuccess, 1);
  cq_.remove(2);
  EXPECT_EQ(arm(kAny), 1u);
}

TEST_F(ArmTest, ARemovalKeepsASolicitedOneThatWaits) {
  push(true);
  push(false, WcStatus::kSuccess, 2);
  cq_.remove(2);
  EXPECT_EQ(arm(kSolicited), 1u);
}

TEST_F(ArmTest, ForSolicitedOnesOthersDoNotCount) {
  push(false);
  EXPECT_EQ(arm(kSolicited), 0u);
  EXPECT_EQ(push(false), 0u);
  EXPECT_EQ(push(true), 1u);
}

TEST_F(ArmTest, ASolicitedOneOrAnErrorBehindOthersIsSaidAtOnce) {
  push(true);
  push(false);
  EXPECT_EQ(arm(kSolicited), 1u);
  poll(2);
  push(false, WcStatus::kWrFlushErr);
  push(false);
  EXPECT_EQ(arm(kSolicited), 1u);
}

TEST_F(ArmTest, ASolicitedOneThatWasPolledIsKnown) {
  push(true);
  push(false);
  poll(1);
  EXPECT_EQ(arm(kSolicited), 0u);
  EXPECT_EQ(arm(kAny), 1u);  // the other completion was never announced
}

TEST_F(ArmTest, ArmingForSolicitedOnesKeepsAnArmingForAny) {
  arm(kAny);
  EXPECT_EQ(arm(kSolicited), 0u);
  EXPECT_EQ(push(false), 1u);
}

TEST_F(ArmTest, AnErrorWakesASolicitedArming) {
  arm(kSolicited);
  EXPECT_EQ(push(false, WcStatus::kWrFlushErr), 1u);
}

// Moderation.

class ModerationTest : public ArmTest {
 protected:
  size_t push_at(int64_t us) {
    Completion completion;
    completion.timestamp_ns = us * 1000;
    return raised_by([&] { EXPECT_TRUE(cq_.push(completion, false, slots_)); });
  }
  size_t due(int64_t us) {
    return raised_by([&] { cq_.raise_due(Instant{us * 1000}); });
  }
  static Instant at(int64_t us) { return Instant{us * 1000}; }
};

TEST_F(ModerationTest, AnEventForSoMany) {
  cq_.moderate(3, Duration{0});
  arm(kAny);
  EXPECT_EQ(push_at(1), 0u);
  EXPECT_EQ(push_at(2), 0u);
  EXPECT_EQ(cq_.next_event(), Instant::never());
  EXPECT_EQ(push_at(3), 1u);
  EXPECT_EQ(push_at(4), 0u);  // not armed
}

TEST_F(ModerationTest, OrWhenTheFirstIsOldEnough) {
  cq_.moderate(3, microseconds(10));
  arm(kAny);
  EXPECT_EQ(cq_.next_event(), Instant::never());
  push_at(100);
  push_at(105);
  EXPECT_EQ(cq_.next_event(), at(110));
  EXPECT_EQ(due(109), 0u);
  EXPECT_EQ(due(110), 1u);
  EXPECT_EQ(cq_.next_event(), Instant::never());
  EXPECT_EQ(due(1000), 0u);
}

TEST_F(ModerationTest, WhatWasThereBeforeTheArmingCounts) {
  cq_.moderate(3, microseconds(10));
  push_at(100);
  push_at(103);
  EXPECT_EQ(arm(kAny), 0u);
  EXPECT_EQ(cq_.next_event(), at(110));
  EXPECT_EQ(arm(kAny), 0u);  // nothing counts twice
  EXPECT_EQ(push_at(104), 1u);
  poll(3);
  for (int i = 0; i < 3; i++) push_at(200);
  EXPECT_EQ(arm(kAny), 1u);
}

// Armed for solicited completions, then for all: those in the queue count, too.
TEST_F(ModerationTest, AnArmingForMore) {
  cq_.moderate(4, microseconds(10));
  push_at(100);
  EXPECT_EQ(arm(kSolicited), 0u);
  EXPECT_EQ(cq_.next_event(), Instant::never());
  EXPECT_EQ(arm(kAny), 0u);
  EXPECT_EQ(cq_.next_event(), at(110));
}

TEST_F(ModerationTest, WhatWasPolledNeedsNoEvent) {
  cq_.moderate(4, microseconds(10));
  arm(kAny);
  push_at(100);
  push_at(101);
  poll(2);
  EXPECT_EQ(cq_.next_event(), Instant::never());
  push_at(150);
  EXPECT_EQ(cq_.next_event(), at(160));
  cq_.remove(0);
  EXPECT_EQ(cq_.next_event(), Instant::never());
}

TEST_F(ModerationTest, OtherValuesHoldForWhatIsHeldBack) {
  cq_.moderate(8, Duration{0});
  arm(kAny);
  push_at(100);
  push_at(101);
  EXPECT_EQ(raised_by([&] { cq_.moderate(8, microseconds(5)); }), 0u);
  EXPECT_EQ(cq_.next_event(), at(105));
  EXPECT_EQ(raised_by([&] { cq_.moderate(2, microseconds(5)); }), 1u);
  arm(kAny);
  EXPECT_EQ(raised_by([&] { cq_.moderate(1, microseconds(5)); }), 0u);
  EXPECT_EQ(push_at(102), 1u);  // a count of one is no moderation
}

}  // namespace
}  // namespace uroce
