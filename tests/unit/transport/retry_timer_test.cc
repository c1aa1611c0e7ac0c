// When a requester asks again, and how often: every state, and what leads from each to each.
#include "transport/retry_timer.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

using Budget = RetryTimer::Budget;
using Expired = RetryTimer::Expired;
using State = RetryTimer::State;

constexpr Instant kStart{1'000'000'000};
constexpr Duration kTimeout{4096 << 4};  // code 4
constexpr Duration kWait = microseconds(640);

constexpr Instant just_before(Instant when) { return {when.ns - 1}; }

class RetryTimerTest : public testing::Test {
 protected:
  RetryTimerTest() {
    attributes_.timeout = 4;
    attributes_.retry_cnt = 2;
    attributes_.rnr_retry = 1;
    timer_.start();
  }
  void silence(Instant now) {
    timer_.on_sent(now);
    EXPECT_EQ(timer_.expire(timer_.next_timeout()), Expired::kAnswerWait);
    timer_.lengthen();
  }

  QpAttributes attributes_;
  RetryTimer timer_{attributes_};
};

TEST_F(RetryTimerTest, IdleUntilSomethingIsSent) {
  EXPECT_EQ(timer_.state(), State::kIdle);
  EXPECT_EQ(timer_.next_timeout(), Instant::never());
  timer_.on_sent(kStart);
  EXPECT_EQ(timer_.state(), State::kAwaitsAnswer);
  EXPECT_EQ(timer_.next_timeout(), kStart + kTimeout);
  timer_.on_sent(kStart + microseconds(10));
  EXPECT_EQ(timer_.next_timeout(), kStart + kTimeout) << "the first packet counts";
}

TEST_F(RetryTimerTest, CodeZeroNeverExpires) {
  attributes_.timeout = 0;
  timer_.on_sent(kStart);
  timer_.on_progress(true, kStart);
  EXPECT_EQ(timer_.state(), State::kIdle);
  EXPECT_EQ(timer_.next_timeout(), Instant::never());
}

TEST_F(RetryTimerTest, ExpiresWhenItsTimeHasCome) {
  timer_.on_sent(kStart);
  EXPECT_EQ(timer_.expire(just_before(kStart + kTimeout)), Expired::kNothing);
  EXPECT_EQ(timer_.expire(kStart + kTimeout), Expired::kAnswerWait);
  EXPECT_EQ(timer_.state(), State::kIdle);
  EXPECT_EQ(timer_.expire(kStart + kTimeout), Expired::kNothing);
  EXPECT_FALSE(timer_.timed_out()) << "nobody said yet that it was a silence";
}

TEST_F(RetryTimerTest, OnceTwiceThenFourTimesTheTimeout) {
  for (const int64_t times : {1, 2, 4, 4, 4}) {
    timer_.on_sent(kStart);
    EXPECT_EQ(timer_.next_timeout(), kStart + kTimeout * times);
    silence(kStart);
    EXPECT_TRUE(timer_.timed_out());
  }
  timer_.on_progress(false, kStart);
  EXPECT_FALSE(timer_.timed_out());
  timer_.on_sent(kStart);
  EXPECT_EQ(timer_.next_timeout(), kStart + kTimeout);
}

TEST_F(RetryTimerTest, RetriesAreSpentAndProgressRestoresThem) {
  for (int round = 0; round < 2; round++) {
    timer_.on_sent(kStart);
    EXPECT_EQ(timer_.spend_retry(), Budget::kLeft);
    EXPECT_EQ(timer_.state(), State::kIdle) << "until the retransmission leaves";
    EXPECT_EQ(timer_.retries_left(), 1);
    EXPECT_EQ(timer_.spend_retry(), Budget::kLeft);
    timer_.on_sent(kStart);
    EXPECT_EQ(timer_.spend_retry(), Budget::kExhausted);
    EXPECT_EQ(timer_.state(), State::kAwaitsAnswer);
    timer_.on_progress(true, kStart);
    EXPECT_EQ(timer_.retries_left(), 2);
  }
}

TEST_F(RetryTimerTest, ProgressStartsTheTimerAfreshOrEndsIt) {
  timer_.on_sent(kStart);
  const Instant later = kStart + microseconds(30);
  timer_.on_progress(true, later);
  EXPECT_EQ(timer_.next_timeout(), later + kTimeout);
  timer_.on_progress(false, later);
  EXPECT_EQ(timer_.state(), State::kIdle);
  EXPECT_EQ(timer_.next_timeout(), Instant::never());
  timer_.on_progress(true, later);
  EXPECT_EQ(timer_.state(), State::kAwaitsAnswer);
}

TEST_F(RetryTimerTest, AWaitForAReceive) {
  timer_.on_sent(kStart);
  EXPECT_EQ(timer_.await_receive(kWait, false, kStart), Budget::kLeft);
  EXPECT_TRUE(timer_.awaits_receive());
  EXPECT_EQ(timer_.next_timeout(), kStart + kWait);
  timer_.on_sent(kStart + microseconds(1));  // no effect
  timer_.on_other_response(Psn(5), kStart + microseconds(1));
  EXPECT_EQ(timer_.next_timeout(), kStart + kWait);
  EXPECT_EQ(timer_.expire(just_before(kStart + kWait)), Expired::kNothing);
  EXPECT_EQ(timer_.expire(kStart + kWait), Expired::kReceiveWait);
  EXPECT_EQ(timer_.state(), State::kIdle);
}

TEST_F(RetryTimerTest, AnotherCopyMakesTheWaitLongerAndIsNoRetry) {
  EXPECT_EQ(timer_.await_receive(kWait, false, kStart), Budget::kLeft);  // the only one left
  EXPECT_EQ(timer_.await_receive(kWait * 2, false, kStart), Budget::kLeft);
  EXPECT_EQ(timer_.next_timeout(), kStart + kWait * 2);
  EXPECT_EQ(timer_.await_receive(kWait, false, kStart), Budget::kLeft);
  EXPECT_EQ(timer_.next_timeout(), kStart + kWait * 2) << "never shorter";
}

TEST_F(RetryTimerTest, ForWhatIsBehindItIsAWaitOfItsOwn) {
  EXPECT_EQ(timer_.await_receive(kWait * 2, false, kStart), Budget::kLeft);
  timer_.on_progress(false, kStart);  // acknowledged by the same NAK
  EXPECT_TRUE(timer_.awaits_receive());
  EXPECT_EQ(timer_.await_receive(kWait, true, kStart), Budget::kLeft);
  EXPECT_EQ(timer_.next_timeout(), kStart + kWait) << "this one says when";
  EXPECT_EQ(timer_.await_receive(kWait, true, kStart), Budget::kExhausted);
}

TEST_F(RetryTimerTest, ReceivesThatNeverCome) {
  EXPECT_EQ(timer_.await_receive(kWait, false, kStart), Budget::kLeft);
  EXPECT_EQ(timer_.expire(kStart + kWait), Expired::kReceiveWait);
  EXPECT_EQ(timer_.await_receive(kWait, false, kStart + kWait), Budget::kExhausted);
  attributes_.rnr_retry = 7;  // for ever
  for (int i = 0; i < 100; i++) {
    EXPECT_EQ(timer_.await_receive(kWait, true, kStart), Budget::kLeft);
    EXPECT_EQ(timer_.expire(kStart + kWait), Expired::kReceiveWait);
  }
}

TEST_F(RetryTimerTest, APeerWithoutReceiveIsNotSilent) {
  EXPECT_EQ(timer_.spend_retry(), Budget::kLeft);
  EXPECT_EQ(timer_.await_receive(kWait, false, kStart), Budget::kLeft);
  EXPECT_EQ(timer_.retries_left(), 2);
}

/// Responses of an earlier connection do not count: those of the next one may have any PSNs.
TEST_F(RetryTimerTest, WhatWasHeardBeforeAResetDoesNotCount) {
  for (const uint32_t psn : {200u, 100u, 50u}) {
    timer_.start();
    timer_.on_sent(kStart);
    timer_.on_other_response(Psn(psn), kStart + microseconds(5));
    EXPECT_EQ(timer_.next_timeout(), kStart + microseconds(5) + kTimeout) << psn;
  }
}

TEST_F(RetryTimerTest, OtherResponsesPutTheEndOffOnceEach) {
  timer_.on_other_response(Psn(10), kStart);
  EXPECT_EQ(timer_.state(), State::kIdle) << "nothing is waited for";
  timer_.on_sent(kStart);
  const auto heard = [this](uint32_t psn, int64_t us) {
    const Instant before = timer_.next_timeout();
    timer_.on_other_response(Psn(psn), kStart + microseconds(us));
    return timer_.next_timeout() != before;
  };
  EXPECT_TRUE(heard(10, 1));
  EXPECT_EQ(timer_.next_timeout(), kStart + microseconds(1) + kTimeout);
  EXPECT_FALSE(heard(10, 2));
  EXPECT_FALSE(heard(9, 3));
  EXPECT_TRUE(heard(11, 4));
  timer_.on_rewind();
  EXPECT_TRUE(heard(9, 5));
}

TEST_F(RetryTimerTest, StartAndResetForgetWhatWas) {
  EXPECT_EQ(timer_.spend_retry(), Budget::kLeft);
  silence(kStart);
  EXPECT_EQ(timer_.await_receive(kWait, false, kStart), Budget::kLeft);
  EXPECT_EQ(timer_.spend_retry(), Budget::kLeft);
  timer_.reset();
  EXPECT_EQ(timer_.state(), State::kIdle);
  EXPECT_FALSE(timer_.timed_out());
  EXPECT_EQ(timer_.retries_left(), 1) << "reset() leaves the budgets";
  timer_.start();
  EXPECT_EQ(timer_.retries_left(), 2);
  EXPECT_EQ(timer_.await_receive(kWait, false, kStart), Budget::kLeft);
}

}  // namespace
}  // namespace uroce::test
