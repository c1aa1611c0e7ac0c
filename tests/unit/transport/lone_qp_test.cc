// Queue pairs driven by hand: no engine, no port, no clock but the test's.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "lone_qp.h"
#include "transport/qp.h"
#include "transport/qp_events.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Instant kNow{1'000'000'000};

MATCHER_P2(Ended, wr_id, status, "") { return arg.wr_id == static_cast<uint64_t>(wr_id) && arg.status == status; }

struct Pair {
  explicit Pair(LossRecovery recovery = LossRecovery::kGoBackN, uint32_t cq_size = 64)
      : a(0x11, QpType::kRc, recovery, cq_size), b(0x22, QpType::kRc, recovery) {
    a.connect(b, kNow);
    b.connect(a, kNow);
    std::iota(a.memory.begin(), a.memory.begin() + 4096, uint8_t{1});
    std::iota(b.memory.begin() + 32768, b.memory.end(), uint8_t{7});
  }
  /// Until neither side has anything to send.
  void talk(Instant now) {
    for (bool more = true; more;) {
      more = false;
      for (const auto& frame : a.frames(now)) b.receive(frame, now), more = true;
      for (const auto& frame : b.frames(now)) a.receive(frame, now), more = true;
    }
  }

  LoneQp a;
  LoneQp b;
};

TEST(LoneQp, Writes) {
  Pair pair;
  ASSERT_EQ(pair.a.post(WrOpcode::kRdmaWrite, 5, 3000, pair.b, kNow), PostResult::kOk);
  EXPECT_TRUE(pair.a.qp.wants_transmit());
  pair.talk(kNow);
  EXPECT_THAT(pair.a.completions(), ElementsAre(Ended(5, WcStatus::kSuccess)));
  EXPECT_TRUE(std::equal(pair.a.memory.begin(), pair.a.memory.begin() + 3000, pair.b.memory.begin() + 32768));
  EXPECT_EQ(pair.a.qp.next_timeout(), Instant::never());
}

TEST(LoneQp, Reads) {
  Pair pair;
  ASSERT_EQ(pair.a.post(WrOpcode::kRdmaRead, 6, 3000, pair.b, kNow), PostResult::kOk);
  pair.talk(kNow);
  EXPECT_THAT(pair.a.completions(), ElementsAre(Ended(6, WcStatus::kSuccess)));
  EXPECT_TRUE(std::equal(pair.a.memory.begin(), pair.a.memory.begin() + 3000, pair.b.memory.begin() + 32768));
}

TEST(LoneQp, GivesUpWhenNobodyAnswers) {
  Pair pair;
  ASSERT_EQ(pair.a.post(WrOpcode::kRdmaWrite, 5, 10, pair.b, kNow), PostResult::kOk);
  ASSERT_THAT(pair.a.frames(kNow), SizeIs(1));
  const Instant first = pair.a.qp.next_timeout();
  pair.a.qp.on_timeout(first);
  ASSERT_THAT(pair.a.frames(first), SizeIs(1)) << "retry_cnt is 1";
  const Instant second = pair.a.qp.next_timeout();
  pair.a.qp.on_timeout(second);
  EXPECT_EQ(pair.a.qp.state(), QpState::kErr);
  EXPECT_THAT(pair.a.completions(), ElementsAre(Ended(5, WcStatus::kRetryExcErr)));
  EXPECT_THAT(pair.a.causes, ElementsAre(Cause::kTimeout));
}

TEST(LoneQp, RemembersWhatWentWrongFirstUntilItIsReset) {
  Pair pair;
  EXPECT_FALSE(pair.a.qp.first_error());
  pair.b.key++;  // A uses a wrong key
  for (uint64_t id = 1; id <= 2; id++)
    ASSERT_EQ(pair.a.post(WrOpcode::kRdmaWrite, id, 10, pair.b, kNow), PostResult::kOk);
  pair.talk(kNow);
  ASSERT_THAT(pair.a.completions(), ElementsAre(Ended(1, WcStatus::kRemAccessErr), Ended(2, WcStatus::kWrFlushErr)));
  ASSERT_TRUE(pair.a.qp.first_error());
  EXPECT_EQ(pair.a.qp.first_error()->status, WcStatus::kRemAccessErr);
  EXPECT_EQ(pair.a.qp.first_error()->cause, pair.a.causes.at(0));
  ASSERT_TRUE(pair.b.qp.first_error());
  EXPECT_FALSE(pair.b.qp.first_error()->status) << "it was not its own request";
  EXPECT_EQ(pair.b.qp.first_error()->cause, Cause::kRemoteKey);
  QpAttributes attributes;
  attributes.state = QpState::kReset;
  ASSERT_EQ(pair.a.qp.modify(attributes, kAttrState, nullptr, false, kNow), ModifyResult::kOk);
  EXPECT_FALSE(pair.a.qp.first_error());
}

TEST(LoneQp, WhatIsPostedInErrorEndsAtOnceAtTheTimeOfThePost) {
  Pair pair;
  QpAttributes attributes;
  attributes.state = QpState::kErr;
  ASSERT_EQ(pair.a.qp.modify(attributes, kAttrState, nullptr, false, kNow), ModifyResult::kOk);
  const Instant later = kNow + microseconds(7);
  ASSERT_EQ(pair.a.post(WrOpcode::kRdmaWrite, 9, 10, pair.b, later), PostResult::kOk);
  const auto completions = pair.a.completions();
  ASSERT_THAT(completions, ElementsAre(Ended(9, WcStatus::kWrFlushErr)));
  EXPECT_EQ(completions[0].timestamp_ns, later.ns);
}

TEST(LoneQp, ACompletionWithoutRoomEndsTheQueuePairAndIsSaidOnce) {
  Pair pair(LossRecovery::kGoBackN, 1);
  for (uint64_t id = 1; id <= 3; id++)
    ASSERT_EQ(pair.a.post(WrOpcode::kRdmaWrite, id, 8, pair.b, kNow), PostResult::kOk);
  pair.talk(kNow);
  EXPECT_EQ(pair.a.qp.state(), QpState::kErr);
  EXPECT_THAT(pair.a.completions(), ElementsAre(Ended(1, WcStatus::kSuccess)));
  EXPECT_THAT(pair.a.events, ElementsAre(AsyncEvent::kQpFatal));
}

TEST(LoneQp, NothingIsSentForAGapThatClosedBeforeItsTurn) {
  Pair pair(LossRecovery::kSelective);
  LoneQp& a = pair.a;
  ASSERT_EQ(a.post(WrOpcode::kRdmaRead, 1, 6 * 1024, pair.b, kNow), PostResult::kOk);
  ASSERT_EQ(a.post(WrOpcode::kRdmaWrite, 2, 8, pair.b, kNow), PostResult::kOk);
  const auto requests = a.frames(kNow);
  ASSERT_THAT(requests, SizeIs(2));
  pair.b.receive(requests[0], kNow);
  const auto responses = pair.b.frames(kNow);
  ASSERT_THAT(responses, SizeIs(6));
  for (size_t i : {1, 2, 3}) a.receive(responses[i], kNow);
  EXPECT_TRUE(a.qp.wants_transmit()) << "three responses came from beyond the gap";
  a.receive(responses[0], kNow);
  EXPECT_THAT(a.frames(kNow), IsEmpty()) << "neither a request for it nor the WRITE, which nobody missed";
}

}  // namespace
}  // namespace uroce::test
