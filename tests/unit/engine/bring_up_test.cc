#include "engine/bring_up.h"
#include "base/random.h"

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/object_tables.h"
#include "transport/observer.h"
#include "transport/qp.h"
#include "transport/qp_init.h"
#include "uroce/memory_port.h"

namespace uroce {
namespace {

class BringUp : public testing::TestWithParam<QpType> {
 protected:
  BringUp() {
    attributes_.access = kRemoteWrite;
    attributes_.av.sgid_index = 1;
    attributes_.av.dgid = IpAddress::v4(0x0A000002);
    attributes_.dest_qpn = 0x123;
    QpInit init;
    init.type = GetParam();
    init.pd = engine_.objects().allocate_pd();
    init.send_cq = init.recv_cq = engine_.objects().create_cq(4, nullptr);
    init.cap = {1, 1, 1, 1, 0};
    qp_ = engine_.create_qp(init, nullptr);
  }

  static EngineConfig config() {
    EngineConfig config;
    config.mac = MacAddress{{2, 0, 0, 0, 0, 1}};
    config.addresses = {{IpAddress::v4(0x0A000001), 24, 0}};
    return config;
  }
  ModifyResult to(QpState target) { return bring_up(engine_, *qp_, attributes_, target, Instant{0}); }

  MemoryPort port_{4096 + 128};
  SeededRandom random_{1};
  Observer observer_;
  Engine engine_{config(), port_, random_, observer_};
  QpAttributes attributes_;
  Qp* qp_ = nullptr;
};

TEST_P(BringUp, StopsWhereItIsToldAndGoesOnFromInit) {
  EXPECT_EQ(to(QpState::kInit), ModifyResult::kOk);
  EXPECT_EQ(qp_->state(), QpState::kInit);
  EXPECT_EQ(to(QpState::kRtr), ModifyResult::kOk);
  EXPECT_EQ(qp_->state(), QpState::kRtr);
}

TEST_P(BringUp, GoesAllTheWayAtOnce) {
  EXPECT_EQ(to(QpState::kRts), ModifyResult::kOk);
  EXPECT_EQ(qp_->state(), QpState::kRts);
}

TEST_P(BringUp, AConnectedOneIsRefused) {
  ASSERT_EQ(to(QpState::kRts), ModifyResult::kOk);
  EXPECT_EQ(to(QpState::kRts), ModifyResult::kBadTransition);
  EXPECT_EQ(qp_->state(), QpState::kRts);
}

TEST_P(BringUp, ARefusedStepIsTold) {
  attributes_.path_mtu_bytes = 1000;
  const ModifyResult result = to(QpState::kRts);
  if (GetParam() == QpType::kUd) {
    EXPECT_EQ(result, ModifyResult::kOk) << "a datagram has no path MTU";
  } else {
    EXPECT_NE(result, ModifyResult::kOk);
    EXPECT_EQ(qp_->state(), QpState::kInit) << "the step before it was taken";
  }
}

INSTANTIATE_TEST_SUITE_P(Types, BringUp, testing::Values(QpType::kRc, QpType::kUc, QpType::kUd));

}  // namespace
}  // namespace uroce
