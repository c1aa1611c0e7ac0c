// Numbers that the engine gives out: unique, hard to guess, slow to come back.
#include <gmock/gmock.h>

#include <cstdlib>
#include <set>

#include "engine/qp_table.h"
#include "engine/qpn_blocks.h"
#include "engine/queue_pairs.h"
#include "listed_blocks.h"
#include "rig.h"
#include "transport/counters.h"

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
  // 16 slots with 256 generations each.
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

class NumbersInBlocks : public Numbers {
 protected:
  uint32_t create() {
    const QpTable::Slot slot = shared_.next_free();
    if (slot.index == QpTable::kNone) return 0;
    shared_.put(slot.index, std::make_unique<Qp>(init_, slot.qpn, slot.index, 1024, env_, nullptr));
    return slot.qpn;
  }

  ListedBlocks blocks_{{7, 4094, 1}};
  QpTable shared_{700, random_, &blocks_};
};

TEST_F(NumbersInBlocks, ABlockIsTakenWhenAllSlotsOfTheOthersAreInUse) {
  EXPECT_EQ(blocks_.taken(), 0u);
  EXPECT_FALSE(shared_.owns(7 << kQpnBlockBits));
  std::set<uint32_t> seen;
  for (const uint32_t block : {7u, 4094u}) {
    for (int i = 0; i < 256; i++) {
      const uint32_t qpn = create();
      EXPECT_EQ(qpn >> kQpnBlockBits, block);
      EXPECT_TRUE(seen.insert(qpn).second);
      ASSERT_NE(shared_.find(qpn), nullptr);
      EXPECT_EQ(shared_.find(qpn)->qpn(), qpn);
    }
  }
  EXPECT_EQ(blocks_.taken(), 2u);
  for (int i = 512; i < 700; i++) EXPECT_EQ(create() >> kQpnBlockBits, 1u);
  EXPECT_EQ(create(), 0u) << "the table is full";
  EXPECT_EQ(blocks_.taken(), 3u) << "and asks for no more";
}

TEST_F(NumbersInBlocks, AreOursAsAWhole) {
  create();
  uint32_t found = 0;
  for (uint32_t qpn = 0; qpn < 0x1000000; qpn++) {
    ASSERT_EQ(shared_.owns(qpn), qpn >> kQpnBlockBits == 7) << qpn;
    found += shared_.find(qpn) != nullptr ? 1 : 0;
  }
  EXPECT_EQ(found, 1u);
  EXPECT_TRUE(table_.owns(0)) << "without blocks all are";
  EXPECT_TRUE(table_.owns(0xFFFFFF));
}

TEST_F(NumbersInBlocks, DoNotComeBackSoon) {
  std::set<uint32_t> seen;
  for (uint32_t i = 0; i < kQpnBlockSize; i++) {  // 256 slots with 16 generations each
    const uint32_t qpn = create();
    ASSERT_TRUE(seen.insert(qpn).second) << i;
    shared_.remove(shared_.find(qpn)->index());
    ASSERT_EQ(shared_.find(qpn), nullptr);
  }
  EXPECT_EQ(blocks_.taken(), 1u);
}

TEST_F(NumbersInBlocks, WithoutABlockTheTableIsFullUntilThereIsOne) {
  blocks_.list = {9};
  uint32_t last = 0;
  for (int i = 0; i < 256; i++) last = create();
  EXPECT_EQ(create(), 0u);
  shared_.remove(shared_.find(last)->index());
  EXPECT_NE(create(), 0u) << "a slot of the block that is there";
  EXPECT_EQ(create(), 0u);
  blocks_.list.push_back(10);
  EXPECT_EQ(create() >> kQpnBlockBits, 10u);
}

TEST(Identity, AnEngineWithBlocksHasNumbersOfThem) {
  ListedBlocks blocks{{0x123}};
  RigOptions options;
  options.engine.qpn_blocks = &blocks;
  options.engine.max_qps = 1024;
  Rig rig(options);
  EXPECT_EQ(rig.qp().qpn() >> kQpnBlockBits, 0x123u);
  for (int i = 1; i < 256; i++) ASSERT_NE(rig.engine().create_qp(rig.qp_init(), nullptr), nullptr);
  EXPECT_EQ(rig.engine().create_qp(rig.qp_init(), nullptr), nullptr);
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
