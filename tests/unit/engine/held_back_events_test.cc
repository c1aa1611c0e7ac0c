// Events that moderation holds back: the engine raises them in time, and whoever sleeps knows when that is.
#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/bring_up.h"
#include "engine/engine.h"
#include "engine/object_tables.h"
#include "transport/completion_queue.h"
#include "transport/observer.h"
#include "transport/qp.h"
#include "transport/qp_init.h"
#include "uroce/memory_port.h"

namespace uroce::test {
namespace {

class HeldBackEvents : public testing::Test, protected Observer {
 protected:
  static constexpr Instant kNow{1'000'000};
  static constexpr Duration kPeriod = microseconds(50);

  static EngineConfig config() {
    EngineConfig config;
    config.mac = MacAddress{{2, 0, 0, 0, 0, 1}};
    config.addresses = {{IpAddress::v4(0x0A000001), 24, 0}};
    return config;
  }
  HeldBackEvents() {
    for (Instant now = kNow; engine_.next_timeout() <= now;) engine_.turn(now);  // the frames of its start
    cq_ = engine_.objects().create_cq(16, nullptr);
    engine_.objects().moderate(*cq_, 8, kPeriod);
    QpInit init;
    init.pd = engine_.objects().allocate_pd();
    init.send_cq = init.recv_cq = cq_;
    init.cap = {4, 4, 1, 1, 0};
    qp_ = engine_.create_qp(init, nullptr);
    EXPECT_EQ(bring_up(engine_, *qp_, {}, QpState::kInit, kNow), ModifyResult::kOk);
  }
  /// Completes a receive without the network.
  void complete(Instant now) {
    EXPECT_EQ(engine_.post_recv(*qp_, {7, nullptr, 0}, now), PostResult::kOk);
    QpAttributes error;
    error.state = QpState::kErr;
    EXPECT_EQ(engine_.modify_qp(*qp_, error, kAttrState, now), ModifyResult::kOk);
    EXPECT_EQ(cq_->size(), 1u);
  }
  void on_cq_event(CompletionQueue& /*cq*/) override { events_++; }

  MemoryPort port_;
  SeededRandom random_{1};
  Engine engine_{config(), port_, random_, *this};
  CompletionQueue* cq_ = nullptr;
  Qp* qp_ = nullptr;
  int events_ = 0;
};

TEST_F(HeldBackEvents, ComeInTimeAlthoughNothingElseHappens) {
  cq_->arm(CompletionQueue::Wake::kAny);
  complete(kNow);
  EXPECT_EQ(engine_.next_timeout(), kNow + kPeriod) << "who sleeps longer is late";
  engine_.turn(kNow + Duration{kPeriod.ns - 1});
  EXPECT_EQ(events_, 0);
  engine_.turn(kNow + kPeriod);
  EXPECT_EQ(events_, 1);
  EXPECT_GT(engine_.next_timeout(), kNow + kPeriod) << "it has come";
  engine_.turn(kNow + kPeriod * 2);
  EXPECT_EQ(events_, 1);
}

TEST_F(HeldBackEvents, OfAQueueThatIsGoneNobodyWaitsFor) {
  cq_->arm(CompletionQueue::Wake::kAny);
  complete(kNow);
  engine_.destroy_qp(qp_, kNow);
  ASSERT_TRUE(engine_.objects().destroy_cq(cq_));
  EXPECT_GT(engine_.next_timeout(), kNow + kPeriod);
  engine_.turn(kNow + kPeriod);
  EXPECT_EQ(events_, 0);
}

}  // namespace
}  // namespace uroce::test
