// ibv_rereg_mr with every flag, alone and together, and what it means for keys and for requests under way.
#include <cerrno>

#include "mapped.h"
#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

constexpr int kMove = IBV_REREG_MR_CHANGE_TRANSLATION;
constexpr int kDomain = IBV_REREG_MR_CHANGE_PD;
constexpr int kRights = IBV_REREG_MR_CHANGE_ACCESS;

class ReregistrationTest : public PairTest {
 protected:
  void SetUp() override { make_pair(); }
  ibv_wc_status write(uint64_t to, uint32_t rkey) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {to, rkey};
    EXPECT_EQ(post_send(left_.get(), wr, a_.sge(0, 64)), 0);
    const ibv_wc_status status = poll(cq_.get(), 1)[0].status;
    if (status != IBV_WC_SUCCESS) make_pair();  // both are in the error state
    return status;
  }
};

uint64_t addr_of(const std::vector<uint8_t>& bytes) { return reinterpret_cast<uint64_t>(bytes.data()); }

/// Whatever is changed together, the changes are as requested, the rest is as before, and the keys stay.
TEST_F(ReregistrationTest, EveryCombination) {
  const Owned<ibv_pd> other(ibv_alloc_pd(device()));
  for (int flags = 1; flags <= (kMove | kDomain | kRights); flags++) {
    std::vector<uint8_t> first(64);
    std::vector<uint8_t> second(128);
    const Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), first.data(), 64, kAllAccess));
    const uint32_t lkey = mr->lkey;
    const uint32_t rkey = mr->rkey;
    const bool moves = (flags & kMove) != 0;
    ASSERT_EQ(ibv_rereg_mr(mr.get(), flags, other.get(), second.data(), 128, (flags & kRights) != 0 ? 1 : 0), 0);
    EXPECT_EQ(mr->pd, (flags & kDomain) != 0 ? other.get() : pd_.get()) << flags;
    EXPECT_EQ(mr->addr, moves ? second.data() : first.data()) << flags;
    EXPECT_EQ(mr->length, moves ? 128u : 64u) << flags;
    EXPECT_EQ(mr->lkey, lkey);
    EXPECT_EQ(mr->rkey, rkey);
    const bool served = (flags & (kDomain | kRights)) == 0;
    EXPECT_EQ(write(moves ? addr_of(second) : addr_of(first), rkey), served ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR)
        << flags;
    if (moves) {
      EXPECT_EQ(write(addr_of(first), rkey), IBV_WC_REM_ACCESS_ERR) << flags;
    }
  }
}

TEST_F(ReregistrationTest, TheDomainThatItLeftIsFree) {
  ibv_pd* first = ibv_alloc_pd(device());
  uint8_t bytes[64];
  const Owned<ibv_mr> mr(ibv_reg_mr(first, bytes, 64, kAllAccess));
  EXPECT_EQ(ibv_dealloc_pd(first), EBUSY);
  ASSERT_EQ(ibv_rereg_mr(mr.get(), kDomain, pd_.get(), nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dealloc_pd(first), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
}

/// Each of several domains with the same protection is in use because of its own regions.
TEST_F(ReregistrationTest, NorIsTheParentDomainThatItLeftInUse) {
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd_.get();
  ibv_pd* const parent = ibv_alloc_parent_domain(device(), &attr);
  ASSERT_NE(parent, nullptr);
  uint8_t bytes[64];
  const Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), bytes, 64, kAllAccess));
  for (int round = 0; round < 2; round++) {
    ASSERT_EQ(ibv_rereg_mr(mr.get(), kDomain, parent, nullptr, 0, 0), 0);
    EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
    ASSERT_EQ(ibv_rereg_mr(mr.get(), kDomain, pd_.get(), nullptr, 0, 0), 0);
  }
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

/// Each change starts from the result of the last one.
TEST_F(ReregistrationTest, AgainAndAgain) {
  std::vector<uint8_t> first(64);
  std::vector<uint8_t> second(128);
  const Owned<ibv_pd> other(ibv_alloc_pd(device()));
  Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), first.data(), 64, kAllAccess));
  ASSERT_EQ(ibv_rereg_mr(mr.get(), kRights, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE), 0);
  ASSERT_EQ(ibv_rereg_mr(mr.get(), kMove, nullptr, second.data(), 128, 0), 0);
  EXPECT_EQ(write(addr_of(second), mr->rkey), IBV_WC_REM_ACCESS_ERR) << "its rights were taken before it moved";
  ASSERT_EQ(ibv_rereg_mr(mr.get(), kRights, nullptr, nullptr, 0, kAllAccess), 0);
  EXPECT_EQ(write(addr_of(second), mr->rkey), IBV_WC_SUCCESS) << "it stays where it moved to";
  EXPECT_EQ(write(addr_of(second) + 64, mr->rkey), IBV_WC_SUCCESS) << "to its new end";
  ASSERT_EQ(ibv_rereg_mr(mr.get(), kDomain, other.get(), nullptr, 0, 0), 0);
  ASSERT_EQ(ibv_rereg_mr(mr.get(), kMove, nullptr, first.data(), 64, 0), 0);
  EXPECT_EQ(write(addr_of(first), mr->rkey), IBV_WC_REM_ACCESS_ERR) << "it is in the other domain still";
  ASSERT_EQ(ibv_rereg_mr(mr.get(), kDomain, pd_.get(), nullptr, 0, 0), 0);
  EXPECT_EQ(write(addr_of(first), mr->rkey), IBV_WC_SUCCESS);
  mr.reset();
}

/// A posted receive uses its element's address at the time of arrival, or fails.
TEST_F(ReregistrationTest, UnderAReceiveThatIsPosted) {
  std::vector<uint8_t> memory(256);
  const Owned<ibv_mr> mr(ibv_reg_mr_iova(pd_.get(), memory.data(), 128, 0x1000, kAllAccess));
  ASSERT_EQ(post_recv(right_.get(), 1, {0x1000, 64, mr->lkey}), 0);
  ASSERT_EQ(ibv_rereg_mr(mr.get(), kMove, nullptr, memory.data() + 128, 128, 0), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 64)), 0);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].status, IBV_WC_LOC_PROT_ERR);  // 0x1000 is not in the region any more
}

TEST_F(ReregistrationTest, NotWhileAWindowIsBound) {
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_1));
  ibv_mw_bind bind{};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {b_.mr(), b_.addr(), 64, IBV_ACCESS_REMOTE_WRITE};
  ASSERT_EQ(ibv_bind_mw(right_.get(), mw.get(), &bind), 0);
  poll(cq_.get(), 1);
  EXPECT_EQ(ibv_rereg_mr(b_.mr(), kRights, nullptr, nullptr, 0, kAllAccess), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(write(b_.addr(), mw->rkey), IBV_WC_SUCCESS);  // as before
  bind.bind_info.length = 0;
  ASSERT_EQ(ibv_bind_mw(right_.get(), mw.get(), &bind), 0);
  poll(cq_.get(), 1);
  EXPECT_EQ(ibv_rereg_mr(b_.mr(), kRights, nullptr, nullptr, 0, kAllAccess), 0);
}

/// The region stays as it was after each of these.
TEST_F(ReregistrationTest, WhatIsRefusedChangesNothing) {
  std::vector<uint8_t> memory(64);
  uroce::test::Mapped gone(uroce::test::kPage);
  gone.unmap(0);
  ibv_context* stranger = ibv_open_device(device()->device);
  ibv_pd* strange = ibv_alloc_pd(stranger);
  const Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), memory.data(), 64, kAllAccess));
  const auto refused = [&](int flags, ibv_pd* pd, void* addr, size_t length, int access) {
    errno = 0;
    EXPECT_EQ(ibv_rereg_mr(mr.get(), flags, pd, addr, length, access), IBV_REREG_MR_ERR_INPUT) << flags;
    return errno;
  };
  EXPECT_EQ(refused(0, nullptr, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(refused(1 << 3, nullptr, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(refused(kMove, nullptr, nullptr, 64, 0), EINVAL);
  EXPECT_EQ(refused(kMove, nullptr, memory.data(), 0, 0), EINVAL);
  EXPECT_EQ(refused(kMove, nullptr, memory.data(), 64, kAllAccess), EINVAL);  // rights without the flag for them
  EXPECT_EQ(refused(kMove, nullptr, gone.data(), 64, 0), EFAULT);
  EXPECT_EQ(refused(kDomain, nullptr, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(refused(kDomain, strange, nullptr, 0, 0), EINVAL);  // of another context
  EXPECT_EQ(refused(kRights, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(refused(kRights, nullptr, nullptr, 0, 1 << 15), EINVAL);
  EXPECT_EQ(mr->pd, pd_.get());
  EXPECT_EQ(mr->length, 64u);
  EXPECT_EQ(write(addr_of(memory), mr->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dealloc_pd(strange), 0);
  EXPECT_EQ(ibv_close_device(stranger), 0);
}

}  // namespace
