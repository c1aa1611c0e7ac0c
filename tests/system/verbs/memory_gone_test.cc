// Registered memory that the program takes away: an error where it is used, never a crash, and nobody else suffers.
#include <cerrno>
#include <chrono>
#include <thread>

#include "mapped.h"
#include "verbs_fixture.h"

namespace {

using namespace verbs_test;
using uroce::test::kPage;
using uroce::test::Mapped;

constexpr uint32_t kMemoryGone = 22;  // Cause::kMemoryGone, the completion's vendor_err

/// How the memory disappears.
enum class Way : uint8_t { kUnmapped, kNoRights, kFileCut };

class MemoryGoneTest : public PairTest, public testing::WithParamInterface<Way> {
 protected:
  MemoryGoneTest() { make_pair(); }

  void TearDown() override {
    // The device, its background thread and other queue pairs still work.
    a_.fill(9);
    const auto third = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
    const auto fourth = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
    connect(third.get(), fourth->qp_num);
    connect(fourth.get(), third->qp_num);
    ASSERT_EQ(post_send(third.get(), rdma(IBV_WR_RDMA_WRITE, b_.addr(), b_.rkey()), a_.sge(0, 30000)), 0);
    EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
    EXPECT_TRUE(std::equal(a_.data(), a_.data() + 30000, b_.data()));
  }

  static ibv_send_wr rdma(ibv_wr_opcode opcode, uint64_t addr, uint32_t rkey) {
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = addr;
    wr.wr.rdma.rkey = rkey;
    return wr;
  }
  static ibv_send_wr send() { return rdma(IBV_WR_SEND, 0, 0); }
  static ibv_send_wr fetch_add(uint64_t addr, uint32_t rkey) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.atomic.remote_addr = addr;
    wr.wr.atomic.rkey = rkey;
    wr.wr.atomic.compare_add = 1;
    return wr;
  }

  /// Removes the memory from `offset` on.
  void take_away(size_t offset = 0) {
    switch (GetParam()) {
      case Way::kUnmapped:
        return memory_.unmap(offset);
      case Way::kNoRights:
        return memory_.protect(PROT_NONE, offset);
      case Way::kFileCut:
        return memory_.cut(offset);
    }
  }
  ibv_sge gone_sge(uint32_t length) const { return {memory_.addr(), length, mr_->lkey}; }
  void expect_gone(const ibv_wc& wc, ibv_wc_status status = IBV_WC_LOC_PROT_ERR) {
    EXPECT_EQ(wc.status, status) << ibv_wc_status_str(wc.status);
    EXPECT_EQ(wc.vendor_err, kMemoryGone);
  }
  ibv_wc completion() { return poll(cq_.get(), 1)[0]; }

  static constexpr size_t kBytes = 8 * kPage;
  Mapped memory_{kBytes, GetParam() == Way::kFileCut ? Mapped::Of::kFile : Mapped::Of::kNothing};
  Owned<ibv_mr> mr_{ibv_reg_mr(pd_.get(), memory_.data(), kBytes, kAllAccess)};
};

TEST_P(MemoryGoneTest, SourceOfAWrite) {
  take_away();
  ASSERT_EQ(post_send(left_.get(), rdma(IBV_WR_RDMA_WRITE, b_.addr(), b_.rkey()), gone_sge(100)), 0);
  expect_gone(completion());
}

/// Earlier requests are sent, later ones are flushed.
TEST_P(MemoryGoneTest, SourceOfTheSecondOfThreeSends) {
  take_away(2 * kPage);
  for (uint64_t i = 0; i < 3; i++) ASSERT_EQ(post_recv(right_.get(), i, b_.sge(i * 10000, 10000)), 0);
  ASSERT_EQ(post_send(left_.get(), send(), a_.sge(0, 64)), 0);
  ASSERT_EQ(post_send(left_.get(), send(), {memory_.addr() + kPage, 2 * kPage, mr_->lkey}), 0);
  ASSERT_EQ(post_send(left_.get(), send(), a_.sge(0, 64)), 0);
  const auto all = poll(cq_.get(), 3);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
  expect_gone(all[1]);
  EXPECT_EQ(all[2].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].byte_len, 64u);
}

TEST_P(MemoryGoneTest, DestinationOfARead) {
  take_away();
  ASSERT_EQ(post_send(left_.get(), rdma(IBV_WR_RDMA_READ, b_.addr(), b_.rkey()), gone_sge(5000)), 0);
  expect_gone(completion());
}

TEST_P(MemoryGoneTest, SourceOfAReadAtThePeer) {
  take_away(kPage);
  ASSERT_EQ(post_send(left_.get(), rdma(IBV_WR_RDMA_READ, memory_.addr(), mr_->rkey), a_.sge(0, 3 * kPage)), 0);
  EXPECT_EQ(completion().status, IBV_WC_REM_ACCESS_ERR);
}

TEST_P(MemoryGoneTest, TargetOfAWriteAtThePeer) {
  take_away(kPage);
  a_.fill(1);
  ASSERT_EQ(post_send(left_.get(), rdma(IBV_WR_RDMA_WRITE, memory_.addr(), mr_->rkey), a_.sge(0, 3 * kPage)), 0);
  EXPECT_EQ(completion().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(std::equal(a_.data(), a_.data() + kPage, memory_.data()));  // executed up to there
}

TEST_P(MemoryGoneTest, ReceiveAtThePeer) {
  take_away();
  ASSERT_EQ(post_recv(right_.get(), 7, gone_sge(4096)), 0);
  ASSERT_EQ(post_send(left_.get(), send(), a_.sge(0, 3000)), 0);
  EXPECT_EQ(completion().status, IBV_WC_REM_OP_ERR);
  const ibv_wc received = poll(recv_cq_.get(), 1)[0];
  expect_gone(received);
  EXPECT_EQ(received.wr_id, 7u);
}

TEST_P(MemoryGoneTest, TargetOfAnAtomicAtThePeer) {
  take_away();
  ASSERT_EQ(post_send(left_.get(), fetch_add(memory_.addr(), mr_->rkey), a_.sge(0, 8)), 0);
  EXPECT_EQ(completion().status, IBV_WC_REM_ACCESS_ERR);
}

/// The peer's word has changed: the error tells that its old value is lost.
TEST_P(MemoryGoneTest, ResultOfAnAtomic) {
  take_away();
  ASSERT_EQ(post_send(left_.get(), fetch_add(b_.addr(), b_.rkey()), gone_sge(8)), 0);
  expect_gone(completion());
  EXPECT_EQ(b_.data()[0], 1);
}

TEST_P(MemoryGoneTest, InlineData) {
  take_away();
  ibv_send_wr wr = send();
  wr.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(post_send(left_.get(), wr, gone_sge(40)), EFAULT);
  ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 64)), 0);
  ASSERT_EQ(post_send(left_.get(), send(), a_.sge(0, 64)), 0);  // the queue pair is not affected
  EXPECT_EQ(completion().status, IBV_WC_SUCCESS);
  poll(recv_cq_.get(), 1);
}

TEST_P(MemoryGoneTest, InlineDataOfTheExtendedInterface) {
  QpOptions options;
  options.send_ops = IBV_QP_EX_WITH_SEND;
  make_pair(options);
  take_away();
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(left_.get());
  ibv_wr_start(qp);
  ibv_wr_send(qp);
  ibv_wr_set_inline_data(qp, memory_.data(), 40);
  EXPECT_EQ(ibv_wr_complete(qp), EFAULT);
}

/// UC has no responses: the message is dropped, and the next one arrives.
TEST_P(MemoryGoneTest, TargetOfAnUnreliableWrite) {
  QpOptions options;
  options.type = IBV_QPT_UC;
  make_pair(options);
  take_away();
  a_.fill(2);
  ASSERT_EQ(post_send(left_.get(), rdma(IBV_WR_RDMA_WRITE, memory_.addr(), mr_->rkey), a_.sge(0, 5000)), 0);
  EXPECT_EQ(completion().status, IBV_WC_SUCCESS);
  ibv_send_wr second = rdma(IBV_WR_RDMA_WRITE_WITH_IMM, b_.addr(), b_.rkey());
  ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 64)), 0);
  ASSERT_EQ(post_send(left_.get(), second, a_.sge(0, 5000)), 0);
  EXPECT_EQ(completion().status, IBV_WC_SUCCESS);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(a_.data(), a_.data() + 5000, b_.data()));
}

TEST_P(MemoryGoneTest, UnreliableSourceAndReceive) {
  QpOptions options;
  options.type = IBV_QPT_UC;
  make_pair(options);
  take_away();
  ASSERT_EQ(post_recv(right_.get(), 3, gone_sge(4096)), 0);
  ASSERT_EQ(post_send(left_.get(), send(), a_.sge(0, 3000)), 0);
  EXPECT_EQ(completion().status, IBV_WC_SUCCESS);
  expect_gone(poll(recv_cq_.get(), 1)[0]);
  ASSERT_EQ(post_send(left_.get(), send(), gone_sge(100)), 0);
  expect_gone(completion());
}

TEST_P(MemoryGoneTest, Datagrams) {
  QpOptions options;
  options.type = IBV_QPT_UD;
  make_pair(options);
  ibv_ah_attr attr = own_address(1);
  const Owned<ibv_ah> ah(ibv_create_ah(pd_.get(), &attr));
  take_away();
  ASSERT_EQ(post_recv(right_.get(), 3, gone_sge(1000)), 0);
  ibv_send_wr wr = send();
  wr.wr.ud.ah = ah.get();
  wr.wr.ud.remote_qpn = right_->qp_num;
  wr.wr.ud.remote_qkey = 0x11111111;
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 500)), 0);
  EXPECT_EQ(completion().status, IBV_WC_SUCCESS);
  expect_gone(poll(recv_cq_.get(), 1)[0]);
  ASSERT_EQ(post_send(left_.get(), wr, gone_sge(500)), 0);
  expect_gone(completion());
}

/// Nothing polls, so the background thread meets the fault.
TEST_P(MemoryGoneTest, InTheBackground) {
  take_away();
  ASSERT_EQ(post_recv(right_.get(), 7, gone_sge(4096)), 0);
  ASSERT_EQ(post_send(left_.get(), send(), a_.sge(0, 3000)), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  expect_gone(poll(recv_cq_.get(), 1)[0]);
  EXPECT_EQ(completion().status, IBV_WC_REM_OP_ERR);
}

/// Reading still works after writing does not.
TEST_P(MemoryGoneTest, ReadOnlyFromNowOn) {
  memory_.protect(PROT_READ);
  ASSERT_EQ(post_send(left_.get(), rdma(IBV_WR_RDMA_READ, memory_.addr(), mr_->rkey), a_.sge(0, 100)), 0);
  EXPECT_EQ(completion().status, IBV_WC_SUCCESS);
  ASSERT_EQ(post_send(left_.get(), rdma(IBV_WR_RDMA_WRITE, memory_.addr(), mr_->rkey), a_.sge(0, 100)), 0);
  EXPECT_EQ(completion().status, IBV_WC_REM_ACCESS_ERR);
}

std::string name_of(const testing::TestParamInfo<Way>& info) {
  static constexpr const char* kNames[] = {"Unmapped", "NoRights", "FileCut"};
  return kNames[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Ways, MemoryGoneTest, testing::Values(Way::kUnmapped, Way::kNoRights, Way::kFileCut), name_of);

}  // namespace
