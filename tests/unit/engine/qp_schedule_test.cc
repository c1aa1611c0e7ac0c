// Whose turn it is: ready, paused, owing a notification or waiting for its time.
#include "engine/qp_schedule.h"

#include "engine_parts.h"
#include "transport/qp.h"

namespace uroce::test {
namespace {

using QpScheduleTest = EngineParts;

TEST_F(QpScheduleTest, WhoHasSomethingToSendIsReadyOnce) {
  Qp& idle = connected();
  schedule_.update(idle);
  EXPECT_FALSE(schedule_.wants_transmit());
  Qp& first = connected();
  Qp& second = connected();
  post(first);
  post(second);
  post(first);
  EXPECT_TRUE(schedule_.wants_transmit());
  ASSERT_EQ(schedule_.ready_count(), 2u);
  EXPECT_EQ(&schedule_.take_ready(), &first);
  EXPECT_EQ(&schedule_.take_ready(), &second);
  schedule_.update(first);
  EXPECT_EQ(schedule_.ready_count(), 1u) << "it has still something to send";
}

TEST_F(QpScheduleTest, WhoIsParkedWaitsForOtherPauses) {
  Qp& qp = connected();
  post(qp);
  schedule_.set_paused(schedule_.take_ready(), 0b1000);
  EXPECT_FALSE(schedule_.wants_transmit());
  post(qp);
  EXPECT_FALSE(schedule_.wants_transmit()) << "more to send changes nothing";
  schedule_.release_paused(0b1000);
  EXPECT_EQ(schedule_.ready_count(), 0u);
  schedule_.release_paused(0b0001);
  ASSERT_EQ(schedule_.ready_count(), 1u);
  EXPECT_EQ(&schedule_.take_ready(), &qp);
}

TEST_F(QpScheduleTest, APostMakesReadyOnce) {
  Qp& qp = connected();
  schedule_.on_posted(qp);
  EXPECT_FALSE(schedule_.wants_transmit()) << "nothing was posted";
  SendWr wr;
  wr.opcode = WrOpcode::kSend;
  for (int i = 0; i < 2; i++) {
    ASSERT_EQ(qp.post_send(wr, kNow), PostResult::kOk);
    schedule_.on_posted(qp);
  }
  ASSERT_EQ(schedule_.ready_count(), 1u);
  schedule_.set_paused(schedule_.take_ready(), 0b1000);
  ASSERT_EQ(qp.post_send(wr, kNow), PostResult::kOk);
  schedule_.on_posted(qp);
  EXPECT_EQ(schedule_.ready_count(), 0u) << "it waits for other pauses";
}

TEST_F(QpScheduleTest, APostThatARateHoldsBackIsDueWhenItMayGo) {
  Qp& qp = connected(to(kPeerIp), QpType::kRc);
  QpAttributes attributes;
  attributes.rate_limit_kbps = 1;
  ASSERT_EQ(qp.modify(attributes, kAttrRateLimit, nullptr, false, kNow), ModifyResult::kOk);
  post(qp, 2);
  Bytes bytes(kFrameBytes);
  TxFrame frame{bytes.data(), kFrameBytes, 0, nullptr};
  Instant now = kNow;
  while (qp.poll_transmit(frame, now)) {
    SendWr wr;
    wr.opcode = WrOpcode::kSend;
    ASSERT_EQ(qp.post_send(wr, now), PostResult::kOk);
  }
  ASSERT_FALSE(qp.wants_transmit());
  static_cast<void>(schedule_.take_ready());
  schedule_.on_posted(qp);
  EXPECT_EQ(schedule_.ready_count(), 0u);
  EXPECT_EQ(schedule_.next_timeout(), qp.next_timeout());
  EXPECT_NE(schedule_.next_timeout(), Instant::never());
}

TEST_F(QpScheduleTest, WhoRestsIsDueAllTheSame) {
  Qp& qp = connected(to(kPeerIp), QpType::kRc);
  post(qp);
  Bytes bytes(kFrameBytes);
  TxFrame frame{bytes.data(), kFrameBytes, 0, nullptr};
  ASSERT_EQ(&schedule_.take_ready(), &qp);
  ASSERT_TRUE(qp.poll_transmit(frame, kNow));
  ASSERT_FALSE(qp.wants_transmit());
  schedule_.rest(qp);
  EXPECT_FALSE(schedule_.wants_transmit());
  EXPECT_EQ(schedule_.next_timeout(), qp.next_timeout());
  EXPECT_NE(schedule_.next_timeout(), Instant::never());
}

TEST_F(QpScheduleTest, NotificationsWaitOncePerQp) {
  Qp& qp = connected();
  EXPECT_TRUE(schedule_.takes_cnp(qp));
  schedule_.want_cnp(qp);
  EXPECT_FALSE(schedule_.takes_cnp(qp));
  EXPECT_TRUE(schedule_.cnps_wait());
  EXPECT_TRUE(schedule_.wants_transmit());
  EXPECT_EQ(&schedule_.take_cnp(), &qp);
  EXPECT_FALSE(schedule_.cnps_wait());
  EXPECT_TRUE(schedule_.takes_cnp(qp));
}

TEST_F(QpScheduleTest, WhoWaitsForAnAnswerIsDueAtItsTimeout) {
  Qp& qp = connected(to(kPeerIp), QpType::kRc);
  post(qp);
  EXPECT_EQ(schedule_.next_timeout(), Instant::never());
  Bytes bytes(kFrameBytes);
  TxFrame frame{bytes.data(), kFrameBytes, 0, nullptr};
  ASSERT_TRUE(qp.poll_transmit(frame, kNow));
  schedule_.update(qp);
  const Instant due = schedule_.next_timeout();
  EXPECT_EQ(due, qp.next_timeout());
  EXPECT_GT(due, kNow);
  EXPECT_EQ(schedule_.pop_due(Instant{due.ns - 1}), TimerQueue::kNone);
  EXPECT_EQ(schedule_.pop_due(due), qp.index());
  EXPECT_EQ(schedule_.next_timeout(), Instant::never());
}

TEST_F(QpScheduleTest, WhoGoesIsNowhere) {
  Qp& qp = connected(to(kPeerIp), QpType::kRc);
  Qp& paused = connected();
  post(paused);
  schedule_.set_paused(schedule_.take_ready(), 1);
  post(qp);
  Bytes bytes(kFrameBytes);
  TxFrame frame{bytes.data(), kFrameBytes, 0, nullptr};
  ASSERT_TRUE(qp.poll_transmit(frame, kNow));
  schedule_.update(qp);
  schedule_.want_cnp(qp);
  for (Qp* gone : {&qp, &paused}) schedule_.remove(*gone);
  schedule_.release_paused(0);
  EXPECT_FALSE(schedule_.wants_transmit());
  EXPECT_EQ(schedule_.next_timeout(), Instant::never());
}

using QpScheduleDeathTest = EngineParts;
TEST_F(QpScheduleDeathTest, NobodyIsReadyAndParked) {
  Qp& qp = connected();
  post(qp);
  EXPECT_DEATH(schedule_.set_paused(qp, 1), "a QP is ready or paused, not both");
}

}  // namespace
}  // namespace uroce::test
