// When a peer's DREQ is told to a program whose queue pair has completions that it has not polled.
#include "engine_cm/delayed_dreqs.h"
#include "engine/object_tables.h"

#include <gtest/gtest.h>

#include <memory>

#include "cm/mad.h"
#include "engine/bring_up.h"
#include "transport/completion_queue.h"
#include "transport/observer.h"
#include "transport/qp.h"
#include "transport/qp_init.h"
#include "uroce/memory_port.h"

namespace uroce::test {
namespace {

constexpr Instant kAtFirst{1'000'000};

class HeldEndsTest : public testing::Test {
 protected:
  HeldEndsTest() {
    const PdId pd = engine_.objects().allocate_pd();
    cq_ = engine_.objects().create_cq(16, nullptr);
    QpInit init;
    init.pd = pd;
    init.send_cq = init.recv_cq = cq_;
    init.cap = {4, 4, 1, 1, 0};
    qp_ = engine_.create_qp(init, nullptr);
    other_ = engine_.create_qp(init, nullptr);
  }
  static EngineConfig config() {
    EngineConfig config;
    config.mac = {{2, 0, 0, 0, 0, 1}};
    config.addresses = {{*parse_ip("10.0.0.1"), 24, 0}};
    config.max_qps = 4;
    return config;
  }
  /// A receive of `qp` completes.
  void complete(Qp& qp) {
    QpAttributes attributes;
    attributes.av.dgid = *parse_ip("10.0.0.2");
    attributes.av.sgid_index = 1;
    attributes.dest_qpn = 0x17;
    attributes.path_mtu_bytes = 1024;
    ASSERT_EQ(bring_up(engine_, qp, attributes, QpState::kRtr, kAtFirst), ModifyResult::kOk);
    ASSERT_EQ(engine_.post_recv(qp, {7, nullptr, 0}, kAtFirst), PostResult::kOk);
    attributes.state = QpState::kErr;
    ASSERT_EQ(engine_.modify_qp(qp, attributes, kAttrState, kAtFirst), ModifyResult::kOk);
    ASSERT_EQ(cq_->size(), 1u);
  }
  void poll() {
    Completion completion;
    ASSERT_EQ(cq_->poll({&completion, 1}), 1u);
  }
  bool keep(const cm::MadBytes& bytes, const char* from = "10.0.0.2") {
    return held_.keep({*parse_ip(from), *parse_ip("10.0.0.1"), 0, 1, 0, 64, bytes}, engine_, kAtFirst);
  }
  static cm::MadBytes dreq_for(const Qp& qp, uint32_t id = 0x4ea0) {
    return cm::encode(9, cm::Dreq{.local_id = id, .remote_id = 3, .remote_qpn = qp.qpn(), .private_data = {}});
  }
  /// The ID of the peer that hangs up; 0: none does, by now.
  uint32_t told(Instant now) {
    const auto mad = held_.take(engine_, now);
    return mad ? cm::decode_dreq(mad->bytes).local_id : 0;
  }

  MemoryPort port_;
  SeededRandom random_{1};
  Observer observer_;
  Engine engine_{config(), port_, random_, observer_};
  DelayedDreqs held_;
  CompletionQueue* cq_ = nullptr;
  Qp* qp_ = nullptr;
  Qp* other_ = nullptr;
};

TEST_F(HeldEndsTest, IsToldWhenTheCompletionsWerePolled) {
  complete(*qp_);
  EXPECT_TRUE(keep(dreq_for(*qp_)));
  EXPECT_EQ(told(kAtFirst + microseconds(100)), 0u);
  EXPECT_LE(held_.next_look(), kAtFirst + microseconds(200)) << "soon again";
  poll();
  EXPECT_EQ(told(kAtFirst + microseconds(200)), 0x4ea0u);
  EXPECT_EQ(told(kAtFirst + microseconds(200)), 0u) << "once";
  EXPECT_EQ(held_.next_look(), Instant::never());
}

TEST_F(HeldEndsTest, OrWhenNobodyPolls) {
  complete(*qp_);
  EXPECT_TRUE(keep(dreq_for(*qp_)));
  EXPECT_EQ(told(kAtFirst + DelayedDreqs::kPatience + nanoseconds(-1)), 0u);
  EXPECT_EQ(told(kAtFirst + DelayedDreqs::kPatience), 0x4ea0u);
}

TEST_F(HeldEndsTest, NothingElseWaits) {
  EXPECT_FALSE(keep(dreq_for(*qp_))) << "nothing to poll";
  complete(*other_);
  EXPECT_FALSE(keep(dreq_for(*qp_))) << "of another queue pair";
  EXPECT_FALSE(keep(cm::encode_drep(9, {.local_id = 1, .remote_id = 3, .private_data = {}})));
  EXPECT_FALSE(keep(cm::MadBytes{}));
  EXPECT_FALSE(keep(dreq_for(*other_), "10.0.0.3")) << "of a host that it is not connected with";
  poll();
  EXPECT_FALSE(keep(dreq_for(*other_)));
  EXPECT_EQ(held_.next_look(), Instant::never());
}

/// Sends complete in one queue and receives in another: the DREQ is passed on when both were polled, in any order.
TEST_F(HeldEndsTest, OfTwoQueuesBothArePolledFirst) {
  CompletionQueue* const sends = engine_.objects().create_cq(16, nullptr);
  QpInit init = qp_->init();
  init.send_cq = sends;
  for (CompletionQueue* first : {sends, cq_}) {
    Qp* const qp = engine_.create_qp(init, nullptr);
    complete(*qp);
    ASSERT_EQ(engine_.post_send(*qp, {}, kAtFirst), PostResult::kOk);
    ASSERT_EQ(sends->size(), 1u);
    EXPECT_TRUE(keep(dreq_for(*qp)));
    Completion completion;
    ASSERT_EQ(first->poll({&completion, 1}), 1u);
    EXPECT_EQ(told(kAtFirst + microseconds(100)), 0u) << "of the other one there is something";
    EXPECT_TRUE(keep(dreq_for(*qp, 0x77))) << "nor is another";
    ASSERT_EQ((first == sends ? cq_ : sends)->poll({&completion, 1}), 1u);
    EXPECT_EQ(told(kAtFirst + microseconds(200)), 0x4ea0u);
    EXPECT_EQ(told(kAtFirst + microseconds(200)), 0x77u);
    EXPECT_FALSE(keep(dreq_for(*qp)));
    engine_.destroy_qp(qp, kAtFirst);
  }
}

TEST_F(HeldEndsTest, InTheirOrderAndNotTooMany) {
  complete(*qp_);
  for (uint32_t i = 1; i <= DelayedDreqs::kMax; i++) EXPECT_TRUE(keep(dreq_for(*qp_, i)));
  EXPECT_FALSE(keep(dreq_for(*qp_, 99))) << "told at once";
  poll();
  for (uint32_t i = 1; i <= DelayedDreqs::kMax; i++) EXPECT_EQ(told(kAtFirst), i);
}

TEST_F(HeldEndsTest, WithTheQueuePairGoesTheReason) {
  complete(*qp_);
  EXPECT_TRUE(keep(dreq_for(*qp_)));
  engine_.destroy_qp(qp_, kAtFirst);
  EXPECT_EQ(told(kAtFirst), 0x4ea0u);
}

}  // namespace
}  // namespace uroce::test
