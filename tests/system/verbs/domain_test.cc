// Thread domains, parent domains, and their allocators.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

/// The program's allocator, which records its allocations.
struct Allocator {
  enum class Mood : uint8_t { kGives, kDeclines, kIsEmpty } mood = Mood::kGives;
  std::map<void*, uint64_t> given;  // with its kind
  size_t bytes = 0;

  static void* alloc(ibv_pd* /*pd*/, void* self, size_t size, size_t alignment, uint64_t kind) {
    auto& me = *static_cast<Allocator*>(self);
    if (me.mood == Mood::kDeclines) return IBV_ALLOCATOR_USE_DEFAULT;
    if (me.mood == Mood::kIsEmpty) return nullptr;
    void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    std::memset(memory, 0, size);
    me.given[memory] = kind;
    me.bytes += size;
    return memory;
  }
  static void free(ibv_pd* /*pd*/, void* self, void* memory, uint64_t kind) {
    auto& me = *static_cast<Allocator*>(self);
    ASSERT_EQ(me.given.count(memory), 1u);
    EXPECT_EQ(me.given[memory], kind);
    me.given.erase(memory);
    std::free(memory);
  }
};

class DomainTest : public PairTest {
 protected:
  ibv_parent_domain_init_attr with(Allocator& allocator) {
    ibv_parent_domain_init_attr attr{};
    attr.pd = pd_.get();
    attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    attr.alloc = Allocator::alloc;
    attr.free = Allocator::free;
    attr.pd_context = &allocator;
    return attr;
  }
};

TEST_F(DomainTest, ThreadDomainsAreInUseAsLongAsTheirParentDomains) {
  ibv_td_init_attr td_attr{};
  ibv_td* td = ibv_alloc_td(device(), &td_attr);
  ASSERT_NE(td, nullptr);
  EXPECT_EQ(td->context, device());
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd_.get();
  attr.td = td;
  ibv_pd* parent = ibv_alloc_parent_domain(device(), &attr);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
  {
    const Owned<ibv_qp> qp = make_qp(parent, cq_.get(), cq_.get(), {});
    EXPECT_EQ(qp->pd, parent);
    EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
  }
  {
    const Buffer buffer(parent, 64);
    EXPECT_EQ(buffer.sge(0, 1).length, 1u);
    EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
  }
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

/// Objects of a domain and of its parent domain may be used together.
TEST_F(DomainTest, AParentDomainIsTheSameProtection) {
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd_.get();
  const Owned<ibv_pd> parent(ibv_alloc_parent_domain(device(), &attr));
  ASSERT_NE(parent, nullptr);
  left_ = make_qp(parent.get(), cq_.get(), recv_cq_.get(), {});
  right_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  connect(left_.get(), right_->qp_num);
  connect(right_.get(), left_->qp_num);
  Buffer target(parent.get(), 64);
  a_.fill(3);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma = {target.addr(), target.rkey()};
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 64)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(a_.data(), a_.data() + 64, target.data()));
  left_.reset();
}

TEST_F(DomainTest, WorkQueuesLieInMemoryOfTheAllocator) {
  Allocator allocator;
  ibv_parent_domain_init_attr attr = with(allocator);
  const Owned<ibv_pd> parent(ibv_alloc_parent_domain(device(), &attr));
  ASSERT_NE(parent, nullptr);
  left_ = make_qp(parent.get(), cq_.get(), recv_cq_.get(), {});
  right_ = make_qp(parent.get(), cq_.get(), recv_cq_.get(), {});
  EXPECT_EQ(allocator.given.size(), 4u);  // two for each queue pair
  connect(left_.get(), right_->qp_num);
  connect(right_.get(), left_->qp_num);
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {8, 2, 0};
  Owned<ibv_srq> srq(ibv_create_srq(parent.get(), &srq_attr));
  EXPECT_EQ(allocator.given.size(), 5u);
  ibv_srq_attr larger{100, 0, 0};
  EXPECT_EQ(ibv_modify_srq(srq.get(), &larger, IBV_SRQ_MAX_WR), 0);
  EXPECT_EQ(allocator.given.size(), 5u);  // the old memory was freed
  // The queues work, with posted requests in that memory.
  a_.fill(9);
  for (uint64_t i = 0; i < 16; i++) ASSERT_EQ(post_recv(right_.get(), 0xfeed0000 + i, b_.sge(0, 64)), 0);
  bool found = false;
  for (const auto& [memory, kind] : allocator.given) {
    const auto* words = static_cast<const uint64_t*>(memory);
    for (size_t i = 0; kind == 2 && i < 16; i++) found |= words[i] == 0xfeed0000;
  }
  EXPECT_TRUE(found);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  for (int i = 0; i < 16; i++) ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 64)), 0);
  poll(recv_cq_.get(), 16);
  EXPECT_TRUE(std::equal(a_.data(), a_.data() + 64, b_.data()));
  srq.reset();
  left_.reset();
  right_.reset();
  EXPECT_TRUE(allocator.given.empty());
}

TEST_F(DomainTest, AllocatorsThatDeclineOrHaveNothing) {
  Allocator allocator;
  ibv_parent_domain_init_attr attr = with(allocator);
  const Owned<ibv_pd> parent(ibv_alloc_parent_domain(device(), &attr));
  allocator.mood = Allocator::Mood::kDeclines;
  EXPECT_NE(make_qp(parent.get(), cq_.get(), cq_.get(), {}), nullptr);
  allocator.mood = Allocator::Mood::kIsEmpty;
  ibv_qp_init_attr qp_attr{};
  qp_attr.send_cq = qp_attr.recv_cq = cq_.get();
  qp_attr.cap = {4, 4, 1, 1, 0};
  qp_attr.qp_type = IBV_QPT_RC;
  EXPECT_EQ(ibv_create_qp(parent.get(), &qp_attr), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {8, 2, 0};
  EXPECT_EQ(ibv_create_srq(parent.get(), &srq_attr), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_TRUE(allocator.given.empty());
}

TEST_F(DomainTest, CompletionQueuesOfAParentDomain) {
  ibv_td_init_attr td_attr{};
  ibv_td* td = ibv_alloc_td(device(), &td_attr);
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd_.get();
  attr.td = td;
  ibv_pd* parent = ibv_alloc_parent_domain(device(), &attr);
  ibv_cq_init_attr_ex cq_attr{};
  cq_attr.cqe = 8;
  cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  cq_attr.parent_domain = parent;
  ibv_cq_ex* cq = ibv_create_cq_ex(device(), &cq_attr);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  cq_attr.parent_domain = pd_.get();  // a plain domain
  EXPECT_EQ(ibv_create_cq_ex(device(), &cq_attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

TEST_F(DomainTest, WhatIsRefused) {
  const auto refused = [](ibv_parent_domain_init_attr attr) {
    errno = 0;
    EXPECT_EQ(ibv_alloc_parent_domain(device(), &attr), nullptr);
    return errno;
  };
  EXPECT_EQ(refused({}), EINVAL);
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd_.get();
  attr.comp_mask = 1u << 9;
  EXPECT_EQ(refused(attr), EINVAL);
  attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
  EXPECT_EQ(refused(attr), EINVAL);
  attr.alloc = Allocator::alloc;
  EXPECT_EQ(refused(attr), EINVAL);
  ibv_td_init_attr td{1};
  EXPECT_EQ(ibv_alloc_td(device(), &td), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
