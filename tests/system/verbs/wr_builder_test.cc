// ibv_wr_*.
#include <arpa/inet.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

class WrBuilderTest : public PairTest {
 protected:
  void make_extended_pair() {
    QpOptions options;
    options.send_ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
                       IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    make_pair(options);
    qp_ = ibv_qp_to_qp_ex(left_.get());
    ASSERT_NE(qp_, nullptr);
  }
  ibv_qp_ex* qp_ = nullptr;
};

/// Every type with every operation, known or not: creation fails for operations that the type does not have.
TEST_F(WrBuilderTest, OperationsThatATypeDoesNotHaveAreRefusedAtCreation) {
  constexpr uint64_t kDatagram = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr uint64_t kUnreliable = kDatagram | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                   IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
  constexpr uint64_t kReliable = kUnreliable | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
                                 IBV_QP_EX_WITH_ATOMIC_WRITE | uint64_t{1} << 11;  // FLUSH
  const std::pair<ibv_qp_type, uint64_t> types[] = {
      {IBV_QPT_RC, kReliable}, {IBV_QPT_UC, kUnreliable}, {IBV_QPT_UD, kDatagram}};
  for (const auto& [type, has] : types) {
    for (unsigned bit = 0; bit < 64; bit++) {
      ibv_qp_init_attr_ex attr{};
      attr.send_cq = attr.recv_cq = cq_.get();
      attr.cap = {1, 1, 1, 1, 0};
      attr.qp_type = type;
      attr.pd = pd_.get();
      attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      attr.send_ops_flags = uint64_t{1} << bit;
      errno = 0;
      const bool made = Owned<ibv_qp>(ibv_create_qp_ex(device(), &attr)) != nullptr;
      EXPECT_EQ(made, (has >> bit & 1) != 0) << "type " << type << ", bit " << bit;
      EXPECT_EQ(errno, made ? 0 : EOPNOTSUPP);
    }
  }
}

TEST_F(WrBuilderTest, BatchOfEveryKind) {
  make_extended_pair();
  a_.fill(8);
  const uint64_t seven = 7;
  std::memcpy(b_.data() + 4096, &seven, 8);
  ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 64)), 0);
  ASSERT_EQ(post_recv(right_.get(), 2, b_.sge(64, 64)), 0);
  ASSERT_EQ(post_recv(right_.get(), 3, b_.sge(128, 64)), 0);
  char text[16] = "inline";
  ibv_wr_start(qp_);
  qp_->wr_flags = IBV_SEND_SIGNALED;
  qp_->wr_id = 100;
  ibv_wr_send(qp_);
  ibv_wr_set_inline_data(qp_, text, sizeof text);
  std::memset(text, 0, sizeof text);
  qp_->wr_id = 101;
  ibv_wr_send_imm(qp_, htonl(5));
  ibv_wr_set_sge(qp_, a_.lkey(), a_.addr(), 64);
  qp_->wr_id = 102;
  ibv_wr_rdma_write(qp_, b_.rkey(), b_.addr() + 1024);
  const ibv_sge list[2] = {a_.sge(0, 100), a_.sge(200, 100)};
  ibv_wr_set_sge_list(qp_, 2, list);
  qp_->wr_id = 103;
  ibv_wr_rdma_write_imm(qp_, b_.rkey(), b_.addr() + 2048, htonl(6));
  const ibv_data_buf pieces[2] = {{a_.data(), 10}, {a_.data() + 30, 10}};
  ibv_wr_set_inline_data_list(qp_, 2, pieces);
  qp_->wr_id = 104;
  ibv_wr_rdma_read(qp_, b_.rkey(), b_.addr() + 4096);
  ibv_wr_set_sge(qp_, a_.lkey(), a_.addr() + 8192, 8);
  qp_->wr_id = 105;
  qp_->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;  // the READ must complete first
  ibv_wr_atomic_fetch_add(qp_, b_.rkey(), b_.addr() + 4096, 3);
  ibv_wr_set_sge(qp_, a_.lkey(), a_.addr() + 8200, 8);
  qp_->wr_id = 106;
  ibv_wr_atomic_cmp_swp(qp_, b_.rkey(), b_.addr() + 4096, 10, 99);
  ibv_wr_set_sge(qp_, a_.lkey(), a_.addr() + 8208, 8);
  expect_nothing(cq_.get());  // nothing is posted before the end
  ASSERT_EQ(ibv_wr_complete(qp_), 0);

  const std::vector<ibv_wc> sent = poll(cq_.get(), 7);
  const ibv_wc_opcode opcodes[] = {IBV_WC_SEND,      IBV_WC_SEND,      IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE,
                                   IBV_WC_RDMA_READ, IBV_WC_FETCH_ADD, IBV_WC_COMP_SWAP};
  for (size_t i = 0; i < 7; i++) {
    EXPECT_EQ(sent[i].status, IBV_WC_SUCCESS);
    EXPECT_EQ(sent[i].wr_id, 100 + i);
    EXPECT_EQ(sent[i].opcode, opcodes[i]);
  }
  const std::vector<ibv_wc> received = poll(recv_cq_.get(), 3);
  EXPECT_EQ(received[1].imm_data, htonl(5));
  EXPECT_EQ(received[2].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_STREQ(reinterpret_cast<char*>(b_.data()), "inline");
  EXPECT_EQ(std::memcmp(b_.data() + 1024, a_.data(), 100), 0);
  EXPECT_EQ(std::memcmp(b_.data() + 1124, a_.data() + 200, 100), 0);
  EXPECT_EQ(std::memcmp(b_.data() + 2058, a_.data() + 30, 10), 0);
  uint64_t values[3];
  std::memcpy(values, a_.data() + 8192, sizeof values);
  EXPECT_EQ(values[0], 7u);
  EXPECT_EQ(values[1], 7u);
  EXPECT_EQ(values[2], 10u);
}

TEST_F(WrBuilderTest, AbortPostsNothing) {
  make_extended_pair();
  ibv_wr_start(qp_);
  qp_->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(qp_, b_.rkey(), b_.addr());
  ibv_wr_set_sge(qp_, a_.lkey(), a_.addr(), 64);
  ibv_wr_abort(qp_);
  expect_nothing(cq_.get());
}

TEST_F(WrBuilderTest, AnErrorAnywherePostsNothing) {
  make_extended_pair();
  const std::vector<uint8_t> too_long(65);
  ibv_wr_start(qp_);
  qp_->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(qp_, b_.rkey(), b_.addr());
  ibv_wr_set_sge(qp_, a_.lkey(), a_.addr(), 64);
  ibv_wr_rdma_write(qp_, b_.rkey(), b_.addr());
  ibv_wr_set_inline_data(qp_, const_cast<uint8_t*>(too_long.data()), too_long.size());
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  expect_nothing(cq_.get());
}

/// Errors that only the engine can find: nothing of such a batch is executed, and windows keep their keys.
TEST_F(WrBuilderTest, ABadRequestAnywhereExecutesNothing) {
  QpOptions options;
  options.send_ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_BIND_MW;
  make_pair(options);
  qp_ = ibv_qp_to_qp_ex(left_.get());
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2));
  const ibv_mw_bind_info info{a_.mr(), a_.addr(), 64, IBV_ACCESS_REMOTE_READ};
  const std::vector<uint8_t> before(b_.data(), b_.data() + 64);
  a_.fill(77);
  for (const uint32_t bad : {0u, 1u, 2u, 3u}) {
    ibv_wr_start(qp_);
    qp_->wr_flags = IBV_SEND_SIGNALED;
    for (uint32_t i = 0; i < 4; i++) {
      if (i == bad) {
        ibv_wr_atomic_fetch_add(qp_, b_.rkey(), b_.addr(), 1);
        ibv_wr_set_sge(qp_, a_.lkey(), a_.addr(), 4);  // an atomic has another size
      } else if (i == 0) {
        ibv_wr_bind_mw(qp_, mw.get(), ibv_inc_rkey(mw->rkey), &info);
      } else {
        ibv_wr_rdma_write(qp_, b_.rkey(), b_.addr());
        ibv_wr_set_sge(qp_, a_.lkey(), a_.addr(), 64);
      }
    }
    EXPECT_EQ(ibv_wr_complete(qp_), EINVAL) << bad;
    expect_nothing(cq_.get());
    EXPECT_TRUE(std::equal(before.begin(), before.end(), b_.data())) << bad;
  }
  // None of them bound the window.
  ibv_wr_start(qp_);
  ibv_wr_bind_mw(qp_, mw.get(), ibv_inc_rkey(mw->rkey), &info);
  EXPECT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
}

/// Whether the bind is posted in the end or not.
TEST_F(WrBuilderTest, AWindowsKeyIsTheProgramsToKeep) {
  QpOptions options;
  options.send_ops = IBV_QP_EX_WITH_BIND_MW;
  make_pair(options);
  qp_ = ibv_qp_to_qp_ex(left_.get());
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2));
  const ibv_mw_bind_info info{a_.mr(), a_.addr(), 64, IBV_ACCESS_REMOTE_READ};
  const uint32_t before = mw->rkey;
  for (const uint32_t asked : {ibv_inc_rkey(before), 0x1234'5600 | ((before + 7) & 0xff)}) {
    ibv_wr_start(qp_);
    ibv_wr_bind_mw(qp_, mw.get(), asked, &info);
    ibv_wr_abort(qp_);
    EXPECT_EQ(mw->rkey, before);
  }
  ibv_wr_start(qp_);
  ibv_wr_bind_mw(qp_, mw.get(), ibv_inc_rkey(before), &info);
  EXPECT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(mw->rkey, before);
}

TEST_F(WrBuilderTest, NothingIsPostedInAStateThatTakesNone) {
  QpOptions options;
  options.send_ops = IBV_QP_EX_WITH_RDMA_WRITE;
  left_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), options);  // INIT
  qp_ = ibv_qp_to_qp_ex(left_.get());
  ibv_wr_start(qp_);
  ibv_wr_rdma_write(qp_, b_.rkey(), b_.addr());
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  ibv_wr_start(qp_);
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);  // an empty batch, likewise
}

/// Attributes of a request do not carry over to the next batch.
TEST_F(WrBuilderTest, ABatchLeavesNothingForTheNext) {
  QpOptions options;
  options.type = IBV_QPT_UD;
  options.send_ops = IBV_QP_EX_WITH_SEND;
  left_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), options);
  connect(left_.get(), 0);
  qp_ = ibv_qp_to_qp_ex(left_.get());
  ibv_ah_attr attr = own_address(1);
  const Owned<ibv_ah> ah(ibv_create_ah(pd_.get(), &attr));
  ibv_wr_start(qp_);
  ibv_wr_send(qp_);
  ibv_wr_set_ud_addr(qp_, ah.get(), 1, 1);
  EXPECT_EQ(ibv_wr_complete(qp_), 0);
  ibv_wr_start(qp_);
  ibv_wr_send(qp_);  // without an address handle
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
}

TEST_F(WrBuilderTest, SettersAfterTooManyRequestsTouchNothing) {
  make_extended_pair();
  ibv_wr_start(qp_);
  for (int i = 0; i < 17; i++) ibv_wr_rdma_write(qp_, b_.rkey(), b_.addr());
  ibv_wr_set_sge(qp_, a_.lkey(), a_.addr(), 8);
  char text[8] = {};
  ibv_wr_set_inline_data(qp_, text, sizeof text);
  EXPECT_EQ(ibv_wr_complete(qp_), ENOMEM);
}

TEST_F(WrBuilderTest, TooManyElementsPostNothing) {
  make_extended_pair();
  ibv_sge list[5];
  for (ibv_sge& sge : list) sge = a_.sge(0, 8);
  ibv_wr_start(qp_);
  qp_->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(qp_, b_.rkey(), b_.addr());
  ibv_wr_set_sge_list(qp_, 5, list);
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  expect_nothing(cq_.get());
}

TEST_F(WrBuilderTest, WhatIsNotOfferedFailsTheBatch) {
  make_extended_pair();
  for (int i = 0; i < 2; i++) {
    ibv_wr_start(qp_);
    if (i == 0) ibv_wr_send_tso(qp_, nullptr, 0, 0);
    if (i == 1) ibv_wr_set_xrc_srqn(qp_, 1);
    EXPECT_EQ(ibv_wr_complete(qp_), EOPNOTSUPP) << i;
  }
}

TEST_F(WrBuilderTest, MoreThanFitsPostsNothing) {
  make_extended_pair();
  ibv_wr_start(qp_);
  qp_->wr_flags = IBV_SEND_SIGNALED;
  for (int i = 0; i < 17; i++) {
    ibv_wr_rdma_write(qp_, b_.rkey(), b_.addr());
    ibv_wr_set_sge(qp_, a_.lkey(), a_.addr(), 8);
  }
  EXPECT_EQ(ibv_wr_complete(qp_), ENOMEM);
  expect_nothing(cq_.get());
  ibv_wr_start(qp_);
  for (int i = 0; i < 16; i++) {
    ibv_wr_rdma_write(qp_, b_.rkey(), b_.addr());
    ibv_wr_set_sge(qp_, a_.lkey(), a_.addr(), 8);
  }
  EXPECT_EQ(ibv_wr_complete(qp_), 0);
  poll(cq_.get(), 16);
}

}  // namespace
