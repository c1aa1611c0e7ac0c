// Protection domains, memory regions and windows.
#include <cerrno>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

class MemoryTest : public PairTest {
 protected:
  ibv_send_wr write_to(uint64_t addr, uint32_t rkey) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = addr;
    wr.wr.rdma.rkey = rkey;
    return wr;
  }
};

TEST_F(MemoryTest, PdInUseIsBusy) {
  ibv_pd* pd = ibv_alloc_pd(device());
  ASSERT_NE(pd, nullptr);
  {
    const Buffer buffer(pd, 64);
    EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  }
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(MemoryTest, AccessFlagsAreChecked) {
  uint8_t byte = 0;
  const auto refused = [&](int access) {
    ibv_mr* mr = ibv_reg_mr(pd_.get(), &byte, 1, access);
    EXPECT_EQ(mr, nullptr) << access;
    return errno;
  };
  EXPECT_EQ(refused(IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(refused(IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
  EXPECT_EQ(refused(1 << 15), EINVAL);
  EXPECT_EQ(refused(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND), EINVAL);
  const Owned<ibv_mr> relaxed(ibv_reg_mr(pd_.get(), &byte, 1, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING));
  EXPECT_NE(relaxed, nullptr);
  const Owned<ibv_mr> none(ibv_reg_mr(pd_.get(), &byte, 1, 0));
  EXPECT_NE(none, nullptr);
}

TEST_F(MemoryTest, NothingCanBeRegistered) {
  uint8_t byte = 0;
  const Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), &byte, 0, kAllAccess));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->length, 0u);
}

TEST_F(MemoryTest, OtherAddressSpace) {
  make_pair();
  std::vector<uint8_t> memory(4096);
  const Owned<ibv_mr> mr(ibv_reg_mr_iova(pd_.get(), memory.data(), memory.size(), 0x1000, kAllAccess));
  ASSERT_NE(mr, nullptr);
  a_.fill(3);
  ASSERT_EQ(post_send(left_.get(), write_to(0x1000 + 100, mr->rkey), a_.sge(0, 200)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(a_.data(), a_.data() + 200, memory.data() + 100));
}

TEST_F(MemoryTest, ZeroBased) {
  make_pair();
  std::vector<uint8_t> memory(4096);
  const Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), memory.data(), memory.size(), kAllAccess | IBV_ACCESS_ZERO_BASED));
  ASSERT_NE(mr, nullptr);
  a_.fill(4);
  ASSERT_EQ(post_send(left_.get(), write_to(8, mr->rkey), a_.sge(0, 16)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(a_.data(), a_.data() + 16, memory.data() + 8));
}

TEST_F(MemoryTest, ReregistrationMovesTheRegion) {
  make_pair();
  std::vector<uint8_t> first(64);
  std::vector<uint8_t> second(128);
  const Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), first.data(), first.size(), kAllAccess));
  EXPECT_EQ(ibv_rereg_mr(mr.get(), 0, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  ASSERT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, second.data(), second.size(), 0), 0);
  EXPECT_EQ(mr->addr, second.data());
  EXPECT_EQ(mr->length, second.size());
  a_.fill(5);
  ASSERT_EQ(post_send(left_.get(), write_to(reinterpret_cast<uint64_t>(second.data()), mr->rkey), a_.sge(0, 128)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(second.begin(), second.end(), a_.data()));
  // Without the right to remote writes, the peer refuses.
  ASSERT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE), 0);
  ASSERT_EQ(post_send(left_.get(), write_to(reinterpret_cast<uint64_t>(second.data()), mr->rkey), a_.sge(0, 128)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(MemoryTest, ReregistrationChecksTheRights) {
  std::vector<uint8_t> memory(64);
  const Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), memory.data(), memory.size(), kAllAccess));
  for (const int rights : {static_cast<int>(IBV_ACCESS_REMOTE_WRITE), static_cast<int>(IBV_ACCESS_REMOTE_ATOMIC),
                           IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, 1 << 15}) {
    errno = 0;
    EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, rights), IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(errno, EINVAL) << rights;
  }
  EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, 8, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr.get(), 1 << 9, nullptr, nullptr, 8, 0), IBV_REREG_MR_ERR_INPUT);
  // None of them changed anything.
  make_pair();
  const uint64_t addr = reinterpret_cast<uint64_t>(memory.data());
  ASSERT_EQ(post_send(left_.get(), write_to(addr, mr->rkey), a_.sge(0, 64)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  // Rights that do not need LOCAL_WRITE work without it.
  EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_READ), 0);
}

TEST_F(MemoryTest, ReregistrationMovesToAnotherDomain) {
  const Owned<ibv_pd> other(ibv_alloc_pd(device()));
  std::vector<uint8_t> memory(64);
  Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), memory.data(), memory.size(), kAllAccess));
  ASSERT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_PD, other.get(), nullptr, 0, 0), 0);
  EXPECT_EQ(mr->pd, other.get());
  EXPECT_EQ(ibv_dealloc_pd(other.get()), EBUSY);
  make_pair();
  ASSERT_EQ(post_send(left_.get(), write_to(reinterpret_cast<uint64_t>(memory.data()), mr->rkey), a_.sge(0, 8)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(MemoryTest, WindowOfType1) {
  make_pair();
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_1));
  ASSERT_NE(mw, nullptr);
  const uint32_t unbound_key = mw->rkey;
  ibv_mw_bind bind{};
  bind.wr_id = 77;
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {b_.mr(), b_.addr() + 1000, 100, IBV_ACCESS_REMOTE_WRITE};
  ASSERT_EQ(ibv_bind_mw(right_.get(), mw.get(), &bind), 0);
  EXPECT_NE(mw->rkey, unbound_key);
  const ibv_wc bound = poll(cq_.get(), 1)[0];
  EXPECT_EQ(bound.status, IBV_WC_SUCCESS);
  EXPECT_EQ(bound.opcode, IBV_WC_BIND_MW);
  EXPECT_EQ(bound.wr_id, 77u);
  a_.fill(6);
  ASSERT_EQ(post_send(left_.get(), write_to(b_.addr() + 1000, mw->rkey), a_.sge(0, 100)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(a_.data(), a_.data() + 100, b_.data() + 1000));
  EXPECT_EQ(ibv_dereg_mr(b_.mr()), EBUSY);  // a window is bound to it
  ASSERT_EQ(post_send(left_.get(), write_to(b_.addr() + 1000, mw->rkey), a_.sge(0, 101)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(MemoryTest, WindowOfType2IsInvalidatedByThePeer) {
  make_pair();
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2));
  ASSERT_NE(mw, nullptr);
  const uint32_t rkey = ibv_inc_rkey(mw->rkey);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.bind_mw.mw = mw.get();
  wr.bind_mw.rkey = rkey;
  wr.bind_mw.bind_info = {b_.mr(), b_.addr(), 4096, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(right_.get(), &wr, &bad), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  ASSERT_EQ(post_send(left_.get(), write_to(b_.addr(), rkey), a_.sge(0, 4096)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);

  ASSERT_EQ(post_recv(right_.get(), 5, b_.sge(8192, 64)), 0);
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND_WITH_INV;
  send.send_flags = IBV_SEND_SIGNALED;
  send.invalidate_rkey = rkey;
  ASSERT_EQ(post_send(left_.get(), send, a_.sge(0, 64)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  const ibv_wc received = poll(recv_cq_.get(), 1)[0];
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_NE(received.wc_flags & IBV_WC_WITH_INV, 0u);
  EXPECT_EQ(received.invalidated_rkey, rkey);
  ASSERT_EQ(post_send(left_.get(), write_to(b_.addr(), rkey), a_.sge(0, 64)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_REM_ACCESS_ERR);
}

/// The owner of the key is told by an error of its receive; the peer gets no answer, until its retries end.
TEST_F(MemoryTest, AKeyThatThePeerMayNotInvalidate) {
  make_pair();
  ASSERT_EQ(post_recv(right_.get(), 5, b_.sge(8192, 64)), 0);
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND_WITH_INV;
  send.send_flags = IBV_SEND_SIGNALED;
  send.invalidate_rkey = b_.rkey();
  ASSERT_EQ(post_send(left_.get(), send, a_.sge(0, 64)), 0);
  const ibv_wc received = poll(recv_cq_.get(), 1)[0];
  EXPECT_EQ(received.status, IBV_WC_LOC_ACCESS_ERR);
  EXPECT_EQ(received.wr_id, 5u);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(MemoryTest, WindowBoundAndInvalidatedLocally) {
  QpOptions options;
  options.send_ops = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
  make_pair(options);
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2));
  const uint32_t first = ibv_inc_rkey(mw->rkey);
  const uint32_t second = ibv_inc_rkey(first);
  const ibv_mw_bind_info info{b_.mr(), b_.addr(), 64, IBV_ACCESS_REMOTE_READ};
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(right_.get());
  // Aborted: the window stays as it was.
  ibv_wr_start(qp);
  ibv_wr_bind_mw(qp, mw.get(), first, &info);
  ibv_wr_abort(qp);
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_bind_mw(qp, mw.get(), first, &info);
  ibv_wr_local_inv(qp, first);
  ibv_wr_bind_mw(qp, mw.get(), second, &info);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  for (const ibv_wc& wc : poll(cq_.get(), 3)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
}

}  // namespace
