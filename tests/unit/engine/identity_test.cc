// Numbers that the engine gives out: unique, hard to guess, slow to come back.
#include <gmock/gmock.h>

#include <cstdlib>
#include <set>

#include "engine/qp_table.h"
#include "rig.h"

namespace uroce::test {
namespace {

TEST(Identity, QpNumbersAreUniqueAndScattered) {
  RigOptions options;
  options.engine.max_qps = 2048;
  Rig rig(options);
  std::set<uint32_t> seen{rig.qp().qpn()};
  uint32_t previous = rig.qp().qpn();
  uint32_t near = 0;
  for (int i = 0; i < 2047; i++) {
    Qp* qp = rig.engine().create_qp(rig.qp_init(), nullptr);
    ASSERT_NE(qp, nullptr);
    EXPECT_TRUE(seen.insert(qp->qpn()).second);
    EXPECT_GT(qp->qpn(), 1u);
    EXPECT_LT(qp->qpn(), 0xFFFFFFu);
    near += std::abs(static_cast<int>(qp->qpn()) - static_cast<int>(previous)) < 16 ? 1 : 0;
    previous = qp->qpn();
  }
  EXPECT_LT(near, 10u);
  EXPECT_EQ(rig.engine().create_qp(rig.qp_init(), nullptr), nullptr);
  EXPECT_EQ(rig.engine().qps().size(), 2048u);
}

class Numbers : public testing::Test {
 protected:
  Numbers() { init_.send_cq = init_.recv_cq = &cq_; }
  void put(const QpTable::Slot& slot) {
    table_.put(slot.index, std::make_unique<Qp>(init_, slot.qpn, slot.index, 1024, env_, nullptr));
  }

  SeededRandom random_{3};
  sim::RecordingObserver observer_;
  CompletionQueue cq_{1, observer_};
  MemoryTable memory_{1, random_};
  Counters counters_;
  TransportEnv env_{memory_, counters_, observer_};
  QpInit init_;
  QpTable table_{16, random_};
};

TEST_F(Numbers, DoNotComeBackSoon) {
  std::set<uint32_t> seen;
  // 16 places with 256 generations each.
  for (int i = 0; i < 4000; i++) {
    const QpTable::Slot slot = table_.next_free();
    ASSERT_NE(slot.index, QpTable::kNone);
    ASSERT_TRUE(seen.insert(slot.qpn).second) << i;
    put(slot);
    ASSERT_EQ(table_.find(slot.qpn)->qpn(), slot.qpn);
    table_.remove(slot.index);
    ASSERT_EQ(table_.find(slot.qpn), nullptr);
  }
}

TEST_F(Numbers, OnlyThoseGivenOutFindSomething) {
  for (int i = 0; i < 16; i++) put(table_.next_free());
  EXPECT_EQ(table_.next_free().index, QpTable::kNone);
  uint32_t found = 0;
  for (uint32_t qpn = 0; qpn < 0x1000000; qpn++) found += table_.find(qpn) != nullptr ? 1 : 0;
  EXPECT_EQ(found, 16u);
}

TEST(Identity, SeedsGiveDifferentNumbers) {
  RigOptions options;
  std::set<uint32_t> qpns;
  std::set<uint32_t> rkeys;
  for (options.seed = 1; options.seed <= 50; options.seed++) {
    Rig rig(options);
    qpns.insert(rig.qp().qpn());
    rkeys.insert(rig.rkey());
  }
  EXPECT_GE(qpns.size(), 49u);
  EXPECT_EQ(rkeys.size(), 50u);
}

TEST(Identity, ObjectsInUseStay) {
  Rig rig;
  EXPECT_FALSE(rig.engine().objects().destroy_cq(&rig.send_cq()));
  EXPECT_FALSE(rig.engine().objects().destroy_cq(&rig.recv_cq()));
  EXPECT_FALSE(rig.engine().objects().deallocate_pd(rig.pd()));
  rig.engine().destroy_qp(&rig.qp(), rig.now());
  EXPECT_TRUE(rig.engine().objects().destroy_cq(&rig.send_cq()));
  EXPECT_FALSE(rig.engine().objects().deallocate_pd(rig.pd()));  // regions
  EXPECT_TRUE(rig.engine().memory().deregister(rig.rkey()));
  EXPECT_TRUE(rig.engine().memory().deregister(rig.lkey()));
  EXPECT_TRUE(rig.engine().objects().deallocate_pd(rig.pd()));
  for (const PdId never : {rig.pd(), PdId{0}, ~PdId{0}})
    EXPECT_FALSE(rig.engine().objects().deallocate_pd(never)) << never;
}

}  // namespace
}  // namespace uroce::test
