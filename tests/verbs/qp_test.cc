// Queue pairs: creation, state machine, query.
#include <cerrno>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

class QpTest : public PairTest {
 protected:
  ibv_qp* create(ibv_qp_init_attr attr) {
    attr.send_cq = cq_.get();
    attr.recv_cq = recv_cq_.get();
    return ibv_create_qp(pd_.get(), &attr);
  }
};

TEST_F(QpTest, WhatWasGrantedIsWrittenBack) {
  ibv_qp_init_attr attr{};
  attr.send_cq = cq_.get();
  attr.recv_cq = recv_cq_.get();
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {10, 20, 3, 2, 100};
  attr.qp_context = &attr;
  const Owned<ibv_qp> qp(ibv_create_qp(pd_.get(), &attr));
  ASSERT_NE(qp, nullptr);
  EXPECT_GE(attr.cap.max_send_wr, 10u);
  EXPECT_GE(attr.cap.max_recv_wr, 20u);
  EXPECT_GE(attr.cap.max_send_sge, 3u);
  EXPECT_GE(attr.cap.max_inline_data, 100u);
  EXPECT_EQ(qp->qp_context, &attr);
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  EXPECT_EQ(ibv_qp_to_qp_ex(qp.get()), nullptr);  // not created with send_ops_flags

  ibv_qp_attr now;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(qp.get(), &now, 0, &init), 0);
  EXPECT_EQ(now.qp_state, IBV_QPS_RESET);
  EXPECT_EQ(init.cap.max_recv_wr, attr.cap.max_recv_wr);
  EXPECT_EQ(init.send_cq, cq_.get());
  EXPECT_EQ(init.qp_context, &attr);
}

TEST_F(QpTest, TooMuchIsRefused) {
  ibv_qp_init_attr attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {1, 1, 1, 1, 1u << 20};
  EXPECT_EQ(create(attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr.cap = {1u << 24, 1, 1, 1, 0};
  EXPECT_EQ(create(attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr.cap = {1, 1, 1, 1000, 0};
  EXPECT_EQ(create(attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr.cap = {1, 1, 1, 1, 0};
  attr.qp_type = IBV_QPT_RAW_PACKET;
  EXPECT_EQ(create(attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(QpTest, StateMachineIsKept) {
  ibv_qp_init_attr attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {1, 1, 1, 1, 0};
  const Owned<ibv_qp> qp(create(attr));
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &to, IBV_QP_STATE), EINVAL);
  to.qp_state = IBV_QPS_INIT;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &to, IBV_QP_STATE), EINVAL);  // the rest is missing
  to.port_num = 2;
  const int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &to, init_mask), EINVAL);
  to.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &to, init_mask), 0);
  EXPECT_EQ(qp->state, IBV_QPS_INIT);
  EXPECT_EQ(ibv_modify_qp(qp.get(), &to, IBV_QP_ALT_PATH), EOPNOTSUPP);
}

TEST_F(QpTest, QueryTellsWhatWasSet) {
  make_pair();
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(left_.get(), &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.dest_qp_num, right_->qp_num);
  EXPECT_EQ(attr.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(attr.timeout, 10);
  EXPECT_EQ(attr.retry_cnt, 3);
  EXPECT_EQ(attr.rnr_retry, 7);
  EXPECT_EQ(attr.max_rd_atomic, 4);
  EXPECT_EQ(attr.max_dest_rd_atomic, 4);
  EXPECT_EQ(attr.ah_attr.is_global, 1);
  EXPECT_EQ(attr.ah_attr.grh.sgid_index, 1);
  EXPECT_EQ(attr.ah_attr.port_num, 1);
  to_error(left_.get());
  ASSERT_EQ(ibv_query_qp(left_.get(), &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_ERR);
}

TEST_F(QpTest, ConnectsByLidAlone) {
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(device(), 1, &port), 0);
  left_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = 1234;
  attr.max_dest_rd_atomic = 1;
  attr.ah_attr.dlid = port.lid;
  attr.ah_attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(left_.get(), &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            0);
}

TEST_F(QpTest, PeerThatIsNotThereFailsWithinItsRetries) {
  left_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  connect(left_.get(), 0xabcdef);  // no such queue pair
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  const ibv_wc wc = poll(cq_.get(), 1)[0];
  EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_NE(wc.vendor_err, 0u);
}

TEST_F(QpTest, QueueInUseIsBusy) {
  make_pair();
  EXPECT_EQ(ibv_destroy_cq(cq_.get()), EBUSY);
}

TEST_F(QpTest, EceIsNotOffered) {
  make_pair();
  ibv_ece ece{1, 2, 3};
  EXPECT_EQ(ibv_query_ece(left_.get(), &ece), EOPNOTSUPP);
  EXPECT_EQ(ece.vendor_id, 0u);
  EXPECT_EQ(ibv_query_qp_data_in_order(left_.get(), IBV_WR_RDMA_WRITE, 0), 0);
}

}  // namespace
