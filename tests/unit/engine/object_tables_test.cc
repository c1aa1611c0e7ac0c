// What is in use stays, and what goes leaves room.
#include "engine/object_tables.h"

#include <memory>
#include <set>

#include "engine_parts.h"
#include "transport/address_handle.h"
#include "transport/completion_queue.h"
#include "transport/memory_table.h"
#include "transport/qp_init.h"
#include "transport/receive_queue.h"
#include "transport/tag_matching.h"
#include "transport/xrc_queues.h"

namespace uroce::test {
namespace {

class ObjectTablesTest : public EngineParts {
 protected:
  std::unique_ptr<AddressHandle> handle(PdId pd) { return objects_.create_ah(pd, *router_.route(to(kPeerIp), 1), 0); }
};

TEST_F(ObjectTablesTest, ProtectionDomainsAreNumberedFromOneUntilTheyEnd) {
  EXPECT_EQ(objects_.allocate_pd(), 1u);
  EXPECT_EQ(objects_.allocate_pd(), 2u);
  EXPECT_EQ(objects_.allocate_pd(), 3u);
  EXPECT_EQ(objects_.allocate_pd(), 0u);
  EXPECT_TRUE(objects_.deallocate_pd(2));
  EXPECT_FALSE(objects_.deallocate_pd(2)) << "it is nobody's now";
  EXPECT_EQ(objects_.allocate_pd(), 2u);
  for (const PdId never : {0u, 4u, 77u}) EXPECT_FALSE(objects_.deallocate_pd(never));
}

TEST_F(ObjectTablesTest, AProtectionDomainStaysWhileAnythingIsInIt) {
  const PdId pd = objects_.allocate_pd();
  uint8_t memory[64];
  const uint32_t key = objects_.memory().register_region(pd, memory, sizeof memory, 0, 0);
  EXPECT_FALSE(objects_.deallocate_pd(pd)) << "a region";
  objects_.memory().deregister(key);
  SharedReceiveQueue* srq = objects_.create_srq(pd, 4, 1, nullptr);
  EXPECT_FALSE(objects_.deallocate_pd(pd)) << "a shared receive queue";
  EXPECT_TRUE(objects_.destroy_srq(srq));
  const auto ah = handle(pd);
  EXPECT_FALSE(objects_.deallocate_pd(pd)) << "an address handle";
  objects_.destroy_ah(ah.get());
  QpInit qp = init();
  qp.pd = pd;
  objects_.hold(qp);
  EXPECT_FALSE(objects_.deallocate_pd(pd)) << "a QP";
  objects_.release(qp);
  EXPECT_TRUE(objects_.deallocate_pd(pd));
}

TEST_F(ObjectTablesTest, QueuesStayWhileAQpUsesThem) {
  QpInit qp = init();
  qp.srq = objects_.create_srq(pd_, 4, 1, nullptr);
  objects_.hold(qp);
  EXPECT_FALSE(objects_.destroy_cq(cq_));
  EXPECT_FALSE(objects_.destroy_srq(qp.srq));
  objects_.release(qp);
  EXPECT_TRUE(objects_.destroy_cq(cq_));
  EXPECT_TRUE(objects_.destroy_srq(qp.srq));
}

// A number is used again only after all others, and never while its queue exists.
TEST_F(ObjectTablesTest, NumbersOfQueuesAreUniqueAmongTheLiving) {
  CompletionQueue* const kept = objects_.create_cq(1, nullptr);
  uint32_t number = 0;
  for (uint32_t i = 0; i <= 1u << ObjectTables::kNumberBits; i++) {
    CompletionQueue* const other = objects_.create_cq(1, nullptr);
    ASSERT_NE(other, nullptr);
    ASSERT_NE(other->listed_as, kept->listed_as);
    ASSERT_NE(other->listed_as, number) << "not at once";
    number = other->listed_as;
    ASSERT_LT(number, 1u << ObjectTables::kNumberBits);
    objects_.destroy_cq(other);
  }
  objects_.destroy_cq(kept);
}

TEST_F(ObjectTablesTest, XrcDomainsStayWhileAnythingIsInThem) {
  XrcDomains& domains = objects_.xrc_domains();
  const XrcdId domain = domains.open();
  EXPECT_NE(domain, 0u);
  EXPECT_NE(domains.open(), domain);
  QpInit target;
  target.type = QpType::kXrcRecv;
  target.xrcd = domain;
  objects_.hold(target);
  EXPECT_FALSE(domains.close(domain)) << "a target";
  objects_.release(target);
  init();
  SharedReceiveQueue* srq = objects_.create_srq(pd_, 4, 1, nullptr);
  ASSERT_TRUE(objects_.attach_xrc(*srq, domain, *cq_));
  EXPECT_EQ(objects_.xrc_queues().find(srq->xrc().number), srq);
  EXPECT_FALSE(domains.close(domain)) << "a shared receive queue";
  EXPECT_FALSE(objects_.destroy_cq(cq_)) << "of that queue";
  const uint32_t number = srq->xrc().number;
  EXPECT_TRUE(objects_.destroy_srq(srq));
  EXPECT_EQ(objects_.xrc_queues().find(number), nullptr);
  EXPECT_TRUE(objects_.destroy_cq(cq_));
  EXPECT_TRUE(domains.close(domain));
  EXPECT_FALSE(domains.close(domain)) << "it is not open any more";
  for (const XrcdId never : {0u, 77u}) EXPECT_FALSE(domains.close(never));
  EXPECT_EQ(domains.open(), domain);
}

TEST_F(ObjectTablesTest, AQueueOfTagsStaysInItsCompletionQueueUntilItGoes) {
  init();
  SharedReceiveQueue* srq = objects_.create_srq(pd_, 4, 1, nullptr);
  ASSERT_TRUE(objects_.attach_tags(*srq, *cq_, 4, 2));
  EXPECT_FALSE(objects_.destroy_cq(cq_));
  EXPECT_TRUE(objects_.destroy_srq(srq));
  EXPECT_TRUE(objects_.destroy_cq(cq_));
}

/// Completions of a shared receive queue that were not polled are removed with it; those of others stay.
TEST_F(ObjectTablesTest, CompletionsOfASharedReceiveQueueGoWithIt) {
  init();
  WorkQueueSlots others{4};
  const auto tell = [&](WorkQueueSlots& slots, uint64_t wr_id) {
    Completion completion;
    completion.wr_id = wr_id;
    slots.take();
    slots.end();
    EXPECT_TRUE(cq_->push(completion, false, slots));
  };
  for (const bool tags : {false, true}) {
    const XrcdId domain = objects_.xrc_domains().open();
    SharedReceiveQueue* srq = objects_.create_srq(pd_, 4, 1, nullptr);
    ASSERT_TRUE(tags ? objects_.attach_tags(*srq, *cq_, 4, 2) : objects_.attach_xrc(*srq, domain, *cq_));
    tell(srq->slots(), 1);
    tell(others, 2);
    if (tags) tell(srq->tags()->tag_slots(), 3);
    if (tags) tell(srq->tags()->op_slots(), 4);
    EXPECT_TRUE(objects_.destroy_srq(srq));
    Completion left[8];
    ASSERT_EQ(cq_->poll(left), 1u);
    EXPECT_EQ(left[0].wr_id, 2u);
    EXPECT_EQ(others.taken(), 0u);
  }
}

TEST_F(ObjectTablesTest, TablesFillAndWhatGoesInAnyOrderLeavesRoom) {
  CompletionQueue* cqs[3];
  for (CompletionQueue*& cq : cqs) cq = objects_.create_cq(4, nullptr);
  EXPECT_EQ(std::set<CompletionQueue*>(cqs, cqs + 3).size(), 3u);
  EXPECT_EQ(objects_.create_cq(4, nullptr), nullptr);
  for (const int gone : {0, 2, 1}) EXPECT_TRUE(objects_.destroy_cq(cqs[gone]));
  EXPECT_NE(objects_.create_cq(4, nullptr), nullptr);
  SharedReceiveQueue* first = objects_.create_srq(1, 4, 1, nullptr);
  objects_.create_srq(1, 4, 1, nullptr);
  EXPECT_EQ(objects_.create_srq(1, 4, 1, nullptr), nullptr);
  EXPECT_TRUE(objects_.destroy_srq(first));
  EXPECT_NE(objects_.create_srq(1, 4, 1, nullptr), nullptr);
}

TEST_F(ObjectTablesTest, AddressHandlesHearOfANewMac) {
  const auto first = handle(1), second = handle(1);
  EXPECT_TRUE(objects_.ahs_full());
  EXPECT_EQ(handle(1), nullptr);
  const MacAddress moved = *parse_mac("52:54:00:00:00:99");
  objects_.on_resolved(kPeerIp, 100, moved);
  EXPECT_EQ(first->path.dst_mac, kPeerMac) << "another VLAN";
  objects_.on_resolved(kPeerIp, 0, moved);
  EXPECT_EQ(first->path.dst_mac, moved);
  objects_.destroy_ah(first.get());
  EXPECT_FALSE(objects_.ahs_full());
  objects_.on_resolved(kPeerIp, 0, kPeerMac);
  EXPECT_EQ(first->path.dst_mac, moved) << "it is gone";
  EXPECT_EQ(second->path.dst_mac, kPeerMac);
  objects_.destroy_ah(second.get());
}

using ObjectTablesDeathTest = ObjectTablesTest;
TEST_F(ObjectTablesDeathTest, WhatIsNotThereCannotGo) {
  const auto ah = handle(1);
  objects_.destroy_ah(ah.get());
  EXPECT_DEATH(objects_.destroy_ah(ah.get()), "an address handle knows its place");
  EXPECT_DEATH(objects_.release(init()), "a QP's completion queues know that it uses them");
}

TEST_F(ObjectTablesTest, EventsThatAreHeldBackComeInTime) {
  init();
  CompletionQueue* other = objects_.create_cq(4, nullptr);
  objects_.moderate(*cq_, 8, microseconds(30));
  objects_.moderate(*other, 8, microseconds(20));
  EXPECT_EQ(objects_.next_event(), Instant::never());
  WorkQueueSlots slots{8};
  Completion completion;
  completion.timestamp_ns = 1000;
  for (CompletionQueue* cq : {cq_, other}) {
    cq->arm(CompletionQueue::Wake::kAny);
    cq->push(completion, false, slots);
  }
  EXPECT_EQ(objects_.next_event(), Instant{21000});
  objects_.raise_due(Instant{21000});
  EXPECT_EQ(objects_.next_event(), Instant{31000});
  objects_.moderate(*cq_, 0, Duration{0});
  EXPECT_EQ(objects_.next_event(), Instant::never());
  objects_.moderate(*other, 8, microseconds(20));
  EXPECT_TRUE(objects_.destroy_cq(other));
  EXPECT_EQ(objects_.next_event(), Instant::never());  // a destroyed queue is not asked
}

}  // namespace
}  // namespace uroce::test
