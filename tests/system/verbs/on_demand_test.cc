// Regions on demand, null regions, and advice: memory that is there when it is used.
#include <sys/mman.h>

#include <cerrno>

#include "mapped.h"
#include "verbs_fixture.h"

namespace {

using namespace verbs_test;
using uroce::test::kPage;
using uroce::test::Mapped;

constexpr int kOnDemand = kAllAccess | IBV_ACCESS_ON_DEMAND;
constexpr int kImplicit = (kAllAccess & ~IBV_ACCESS_MW_BIND) | IBV_ACCESS_ON_DEMAND;

class OnDemandTest : public PairTest {
 protected:
  ibv_wc_status write(uint64_t to, uint32_t rkey, uint32_t bytes) {
    return one_sided(IBV_WR_RDMA_WRITE, to, rkey, a_.sge(0, bytes));
  }
  ibv_wc_status one_sided(ibv_wr_opcode opcode, uint64_t remote, uint32_t rkey, const ibv_sge& sge) {
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {remote, rkey};
    EXPECT_EQ(post_send(left_.get(), wr, sge), 0);
    return poll(cq_.get(), 1)[0].status;
  }
  void send(const ibv_sge& from, const ibv_sge& to) {
    ASSERT_EQ(post_recv(right_.get(), 1, to), 0);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    ASSERT_EQ(post_send(left_.get(), wr, from), 0);
    ASSERT_EQ(poll(recv_cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  }
  int advise(ibv_mr* mr, uint64_t addr, uint32_t length, ibv_advise_mr_advice advice, uint32_t flags = 0) {
    ibv_sge sge{addr, length, mr->lkey};
    errno = 0;
    const int error = ibv_advise_mr(pd_.get(), advice, flags, &sge, 1);
    EXPECT_EQ(errno, error);
    return error;
  }
};

bool resident(const uint8_t* page) {
  unsigned char answer = 0;
  EXPECT_EQ(mincore(const_cast<uint8_t*>(page), kPage, &answer), 0);
  return (answer & 1) != 0;
}

TEST_F(OnDemandTest, TheDeviceSaysSo) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(device(), nullptr, &attr), 0);
  EXPECT_EQ(attr.odp_caps.general_caps, uint64_t{IBV_ODP_SUPPORT} | IBV_ODP_SUPPORT_IMPLICIT);
  EXPECT_EQ(attr.odp_caps.per_transport_caps.rc_odp_caps, 0xffu);
  EXPECT_EQ(attr.odp_caps.per_transport_caps.uc_odp_caps,
            uint32_t{IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_SRQ_RECV});
  EXPECT_EQ(attr.odp_caps.per_transport_caps.ud_odp_caps,
            uint32_t{IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV});
}

/// Registered first; then the memory is mapped, unmapped, and mapped again.
TEST_F(OnDemandTest, MemoryComesAndGoesUnderARegion) {
  make_pair();
  Mapped place(4 * kPage);
  uint8_t* const data = place.data();
  place.unmap(0);
  const Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), data, 4 * kPage, kOnDemand));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_reg_mr(pd_.get(), data, 4 * kPage, kAllAccess), nullptr);  // otherwise it must be mapped
  EXPECT_EQ(errno, EFAULT);
  constexpr int kFixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  for (int round = 0; round < 2; round++) {
    ASSERT_EQ(mmap(data, 4 * kPage, PROT_READ | PROT_WRITE, kFixed, -1, 0), data);
    a_.fill(static_cast<uint8_t>(round + 1));
    EXPECT_EQ(write(reinterpret_cast<uint64_t>(data) + 100, mr->rkey, 3 * kPage), IBV_WC_SUCCESS);
    EXPECT_TRUE(std::equal(a_.data(), a_.data() + 3 * kPage, data + 100));
    ASSERT_EQ(munmap(data, 4 * kPage), 0);
  }
  EXPECT_NE(write(reinterpret_cast<uint64_t>(data), mr->rkey, 8), IBV_WC_SUCCESS);
}

TEST_F(OnDemandTest, OneRegionForAllOfTheMemory) {
  make_pair();
  const Owned<ibv_mr> all(ibv_reg_mr(pd_.get(), nullptr, SIZE_MAX, kImplicit));
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(all->addr, nullptr);
  EXPECT_EQ(all->length, SIZE_MAX);
  std::vector<uint8_t> mine(3000);
  const auto addr = reinterpret_cast<uint64_t>(mine.data());
  a_.fill(9);
  EXPECT_EQ(write(addr, all->rkey, 3000), IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(mine.begin(), mine.end(), a_.data()));
  // As a local key, too, in both directions.
  send({addr, 3000, all->lkey}, {b_.addr(), 3000, all->lkey});
  EXPECT_TRUE(std::equal(mine.begin(), mine.end(), b_.data()));
  uint64_t word = 5;
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.atomic = {reinterpret_cast<uint64_t>(&word), 3, 0, all->rkey};
  ASSERT_EQ(post_send(left_.get(), wr, {addr, 8, all->lkey}), 0);
  ASSERT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(word, 8u);
  // Addresses that never have memory: page zero, and the end.
  EXPECT_EQ(write(0, all->rkey, 8), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(OnDemandTest, WhatAnImplicitRegionCannotBe) {
  EXPECT_EQ(ibv_reg_mr_iova(pd_.get(), nullptr, SIZE_MAX, 0x1000, kImplicit), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_mr(pd_.get(), nullptr, SIZE_MAX, kOnDemand), nullptr);  // windows over everything
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_mr(pd_.get(), nullptr, SIZE_MAX, kAllAccess), nullptr);
  EXPECT_NE(errno, 0);
  EXPECT_EQ(ibv_reg_mr(pd_.get(), reinterpret_cast<void*>(uint64_t{1} << 63), 16, kOnDemand), nullptr);
  EXPECT_EQ(errno, EFAULT);
}

TEST_F(OnDemandTest, ARegionBecomesOneOnDemandAndBack) {
  Mapped place(kPage);
  const Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), place.data(), kPage, kAllAccess));
  ASSERT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kOnDemand), 0);
  EXPECT_EQ(advise(mr.get(), place.addr(), kPage, IBV_ADVISE_MR_ADVICE_PREFETCH), 0);
  place.unmap(0);
  EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllAccess),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EFAULT);
}

// Advice.

TEST_F(OnDemandTest, AdviceBringsPagesIn) {
  for (const uint32_t flags : {0u, uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}}) {
    Mapped place(8 * kPage);
    const Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), place.data(), 8 * kPage, kOnDemand));
    ASSERT_FALSE(resident(place.data() + 2 * kPage));
    EXPECT_EQ(advise(mr.get(), place.addr() + 2 * kPage + 5, kPage, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, flags), 0);
    EXPECT_FALSE(resident(place.data() + 2 * kPage));
    EXPECT_EQ(advise(mr.get(), place.addr() + 2 * kPage + 5, kPage, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, flags), 0);
    EXPECT_FALSE(resident(place.data() + 1 * kPage));
    EXPECT_TRUE(resident(place.data() + 2 * kPage));
    EXPECT_TRUE(resident(place.data() + 3 * kPage));
    EXPECT_FALSE(resident(place.data() + 4 * kPage));
    EXPECT_EQ(advise(mr.get(), place.addr() + 6 * kPage, 1, IBV_ADVISE_MR_ADVICE_PREFETCH, flags), 0);
    EXPECT_TRUE(resident(place.data() + 6 * kPage));
  }
}

TEST_F(OnDemandTest, AdviceThatIsRefused) {
  constexpr auto kRead = IBV_ADVISE_MR_ADVICE_PREFETCH;
  constexpr auto kWrite = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  Mapped place(4 * kPage);
  const Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), place.data(), 2 * kPage, kOnDemand));
  const Owned<ibv_mr> constant(ibv_reg_mr(pd_.get(), place.data(), kPage, IBV_ACCESS_ON_DEMAND));
  const Owned<ibv_pd> other(ibv_alloc_pd(device()));
  const Owned<ibv_mr> theirs(ibv_reg_mr(other.get(), place.data(), kPage, kOnDemand));
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_1));
  EXPECT_EQ(advise(mr.get(), place.addr(), kPage, static_cast<ibv_advise_mr_advice>(3)), EOPNOTSUPP);
  EXPECT_EQ(advise(mr.get(), place.addr(), kPage, kRead, 1u << 7), EINVAL);
  EXPECT_EQ(ibv_advise_mr(pd_.get(), kRead, 0, nullptr, 0), EINVAL);
  EXPECT_EQ(advise(a_.mr(), a_.addr(), 8, kRead), EINVAL);  // not on demand
  EXPECT_EQ(advise(constant.get(), place.addr(), kPage, kWrite), EPERM);
  EXPECT_EQ(advise(theirs.get(), place.addr(), kPage, kRead), EPERM);
  EXPECT_EQ(advise(mr.get(), place.addr() + kPage, kPage + 1, kRead), EFAULT);
  EXPECT_EQ(advise(mr.get(), place.addr() - 1, 1, kRead), EFAULT);
  ibv_sge sge{place.addr(), 8, mw->rkey};
  EXPECT_EQ(ibv_advise_mr(pd_.get(), kRead, 0, &sge, 1), ENOENT);
  place.unmap(kPage);
  EXPECT_EQ(advise(mr.get(), place.addr(), 2 * kPage, kRead, IBV_ADVISE_MR_FLAG_FLUSH), EFAULT);
  place.protect(PROT_READ);
  EXPECT_EQ(advise(mr.get(), place.addr(), kPage, kRead), 0);
  EXPECT_EQ(advise(mr.get(), place.addr(), kPage, kWrite), EFAULT);
}

// Null regions.

TEST_F(OnDemandTest, ANullRegionReadsAsZerosAndTakesEverything) {
  make_pair();
  const Owned<ibv_mr> null(ibv_alloc_null_mr(pd_.get()));
  ASSERT_NE(null, nullptr);
  EXPECT_EQ(null->length, SIZE_MAX);
  EXPECT_EQ(null->rkey, 0u);
  EXPECT_EQ(null->pd, pd_.get());
  b_.fill(7);
  send({0xdead0000, 5000, null->lkey}, b_.sge(0, 6000));
  EXPECT_TRUE(std::all_of(b_.data(), b_.data() + 5000, [](uint8_t byte) { return byte == 0; }));
  EXPECT_EQ(b_.data()[5000], static_cast<uint8_t>(7 + 5000 * 7 + 5000 / 256));
  a_.fill(1);
  send(a_.sge(0, 60000), {UINT64_MAX - 70000, 60000, null->lkey});  // all of it is discarded
  EXPECT_EQ(one_sided(IBV_WR_RDMA_READ, b_.addr(), b_.rkey(), {0, 4000, null->lkey}), IBV_WC_SUCCESS);
}

/// The header is kept, and the rest of the message is not.
TEST_F(OnDemandTest, ANullRegionBesideRealMemory) {
  make_pair();
  const Owned<ibv_mr> null(ibv_alloc_null_mr(pd_.get()));
  a_.fill(4);
  ibv_sge to[3] = {b_.sge(0, 10), {0, 1500, null->lkey}, b_.sge(10, 100)};
  ibv_recv_wr recv{1, nullptr, to, 3};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(right_.get(), &recv, &bad), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 1610)), 0);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].byte_len, 1610u);
  EXPECT_TRUE(std::equal(b_.data(), b_.data() + 10, a_.data()));
  EXPECT_TRUE(std::equal(b_.data() + 10, b_.data() + 110, a_.data() + 1510));
}

TEST_F(OnDemandTest, ANullRegionIsNobodyElses) {
  make_pair();
  const Owned<ibv_mr> null(ibv_alloc_null_mr(pd_.get()));
  EXPECT_EQ(ibv_rereg_mr(null.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllAccess),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_1));
  ibv_mw_bind bind{};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {null.get(), 0, 64, IBV_ACCESS_REMOTE_READ};
  ASSERT_EQ(ibv_bind_mw(right_.get(), mw.get(), &bind), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_MW_BIND_ERR);
  make_pair();
  EXPECT_EQ(write(0, null->lkey, 8), IBV_WC_REM_ACCESS_ERR);
}

}  // namespace
