// Queue pairs come and go, and hold what they use.
#include "engine/queue_pairs.h"

#include "engine_parts.h"
#include "transport/qp.h"

namespace uroce::test {
namespace {

using QueuePairsTest = EngineParts;

TEST_F(QueuePairsTest, AreFoundByNumberAndByIndex) {
  Qp* qp = qps_.create(init(), this);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->user(), this);
  EXPECT_EQ(qps_.table().find(qp->qpn()), qp);
  EXPECT_EQ(qps_.table().at(qp->index()), qp);
  const uint32_t qpn = qp->qpn();
  qps_.destroy(*qp);
  EXPECT_EQ(qps_.table().find(qpn), nullptr);
}

TEST_F(QueuePairsTest, AreAsManyAsTheTableHas) {
  std::vector<Qp*> made;
  while (Qp* qp = qps_.create(init(), nullptr)) made.push_back(qp);
  EXPECT_EQ(made.size(), 4u);
  EXPECT_EQ(qps_.size(), 4u);
  qps_.destroy(*made[1]);
  EXPECT_EQ(qps_.size(), 3u);
  EXPECT_NE(qps_.create(init(), nullptr), nullptr);
  uint32_t seen = 0;
  qps_.for_each([&](const Qp&) { seen++; });
  EXPECT_EQ(seen, 4u);
}

TEST_F(QueuePairsTest, HoldWhatTheyUse) {
  Qp* qp = qps_.create(init(), nullptr);
  EXPECT_FALSE(objects_.destroy_cq(cq_));
  EXPECT_FALSE(objects_.deallocate_pd(pd_));
  qps_.destroy(*qp);
  EXPECT_TRUE(objects_.destroy_cq(cq_));
  EXPECT_TRUE(objects_.deallocate_pd(pd_));
}

TEST_F(QueuePairsTest, TheMtuIsWhatFitsTheFrame) {
  EXPECT_EQ(qps_.active_mtu_bytes(), 512u) << "1024 bytes, headers and all";
  for (const auto& [frame_bytes, mtu] : {std::pair{100u, 256u}, {1500u, 1024u}, {9000u, 4096u}, {65000u, 4096u}}) {
    EngineConfig config = small_config();
    config.max_frame_bytes = frame_bytes;
    EXPECT_EQ(QueuePairs(config, objects_, random_, counters_, *this).active_mtu_bytes(), mtu) << frame_bytes;
  }
}

using QueuePairsDeathTest = EngineParts;
TEST_F(QueuePairsDeathTest, OnlyTheirOwnAreDestroyed) {
  QueuePairs others(config_, objects_, random_, counters_, *this);
  Qp* theirs = others.create(init(), nullptr);
  EXPECT_DEATH(qps_.destroy(*theirs), "a QP knows its slot");
  others.destroy(*theirs);
}

}  // namespace
}  // namespace uroce::test
