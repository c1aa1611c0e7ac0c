// Queue pairs: creation, state machine, query.
#include <cerrno>
#include <cstring>

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
  attr.qp_type = IBV_QPT_DRIVER;
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
  EXPECT_EQ(ibv_modify_qp(qp.get(), &to, IBV_QP_STATE), EINVAL);  // the other attributes are missing
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

constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kToRts =
    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

/// Every field has a value of its own, so that a mix-up shows.
TEST_F(QpTest, QueryTellsEveryField) {
  ibv_qp_init_attr create_attr{};
  create_attr.qp_context = this;
  create_attr.send_cq = cq_.get();
  create_attr.recv_cq = recv_cq_.get();
  create_attr.cap = {5, 6, 2, 3, 40};
  create_attr.qp_type = IBV_QPT_RC;
  create_attr.sq_sig_all = 1;
  const Owned<ibv_qp> qp(ibv_create_qp(pd_.get(), &create_attr));
  ibv_qp_attr set{};
  set.qp_state = IBV_QPS_INIT;
  set.port_num = 1;
  set.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  ASSERT_EQ(ibv_modify_qp(qp.get(), &set, kToInit), 0);
  set.qp_state = IBV_QPS_RTR;
  set.path_mtu = IBV_MTU_2048;
  set.dest_qp_num = 0x00abcd;
  set.rq_psn = 0xff123456;  // the upper byte is ignored
  set.max_dest_rd_atomic = 9;
  set.min_rnr_timer = 13;
  set.ah_attr = own_address(1);
  set.ah_attr.sl = 5;
  set.ah_attr.static_rate = 3;
  set.ah_attr.grh.flow_label = 0x54321;
  set.ah_attr.grh.hop_limit = 33;
  set.ah_attr.grh.traffic_class = 0x2c;
  ASSERT_EQ(ibv_modify_qp(qp.get(), &set, kToRtr), 0);
  set.qp_state = IBV_QPS_RTS;
  set.sq_psn = 0xaa654321;
  set.timeout = 11;
  set.retry_cnt = 5;
  set.rnr_retry = 6;
  set.max_rd_atomic = 3;
  ASSERT_EQ(ibv_modify_qp(qp.get(), &set, kToRts), 0);

  ibv_qp_attr now;
  ibv_qp_init_attr init;
  std::memset(&now, 0xee, sizeof now);
  std::memset(&init, 0xee, sizeof init);
  ASSERT_EQ(ibv_query_qp(qp.get(), &now, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(now.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(now.cur_qp_state, IBV_QPS_RTS);
  EXPECT_EQ(now.path_mtu, IBV_MTU_2048);
  EXPECT_EQ(now.path_mig_state, IBV_MIG_MIGRATED);
  EXPECT_EQ(now.qkey, 0u);
  EXPECT_EQ(now.rq_psn, 0x123456u);
  EXPECT_EQ(now.sq_psn, 0x654321u);
  EXPECT_EQ(now.dest_qp_num, 0x00abcdu);
  EXPECT_EQ(now.qp_access_flags, unsigned{IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC});
  EXPECT_EQ(now.pkey_index, 0);
  EXPECT_EQ(now.en_sqd_async_notify, 0);
  EXPECT_EQ(now.sq_draining, 0);
  EXPECT_EQ(now.max_rd_atomic, 3);
  EXPECT_EQ(now.max_dest_rd_atomic, 9);
  EXPECT_EQ(now.min_rnr_timer, 13);
  EXPECT_EQ(now.port_num, 1);
  EXPECT_EQ(now.timeout, 11);
  EXPECT_EQ(now.retry_cnt, 5);
  EXPECT_EQ(now.rnr_retry, 6);
  EXPECT_EQ(now.alt_port_num, 0);
  EXPECT_EQ(now.rate_limit, 0u);
  const ibv_ah_attr& ah = now.ah_attr;
  EXPECT_EQ(std::memcmp(ah.grh.dgid.raw, set.ah_attr.grh.dgid.raw, 16), 0);
  EXPECT_EQ(ah.grh.flow_label, 0x54321u);
  EXPECT_EQ(ah.grh.sgid_index, 1);
  EXPECT_EQ(ah.grh.hop_limit, 33);
  EXPECT_EQ(ah.grh.traffic_class, 0x2c);
  EXPECT_EQ(ah.dlid, 0);
  EXPECT_EQ(ah.sl, 5);
  EXPECT_EQ(ah.static_rate, 3);
  EXPECT_EQ(ah.is_global, 1);
  EXPECT_EQ(ah.port_num, 1);
  for (const ibv_qp_cap& cap : {now.cap, init.cap}) {
    EXPECT_EQ(cap.max_send_wr, 5u);
    EXPECT_EQ(cap.max_recv_wr, 6u);
    EXPECT_EQ(cap.max_send_sge, 2u);
    EXPECT_EQ(cap.max_recv_sge, 3u);
    EXPECT_EQ(cap.max_inline_data, 40u);
  }
  EXPECT_EQ(init.qp_context, this);
  EXPECT_EQ(init.send_cq, cq_.get());
  EXPECT_EQ(init.recv_cq, recv_cq_.get());
  EXPECT_EQ(init.srq, nullptr);
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
  EXPECT_EQ(init.sq_sig_all, 1);

  set.qp_state = IBV_QPS_SQD;
  set.en_sqd_async_notify = 1;
  ASSERT_EQ(ibv_modify_qp(qp.get(), &set, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  ASSERT_EQ(ibv_query_qp(qp.get(), &now, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(now.qp_state, IBV_QPS_SQD);
  EXPECT_EQ(now.en_sqd_async_notify, 1);
}

TEST_F(QpTest, QueryTellsTheQkeyAndTheSharedQueue) {
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {4, 1, 0};
  const Owned<ibv_srq> srq(ibv_create_srq(pd_.get(), &srq_attr));
  QpOptions options;
  options.type = IBV_QPT_UD;
  options.srq = srq.get();
  const Owned<ibv_qp> qp = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), options);
  ibv_qp_attr now;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(qp.get(), &now, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(now.qkey, 0x11111111u);
  EXPECT_EQ(now.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(init.srq, srq.get());
  EXPECT_EQ(init.qp_type, IBV_QPT_UD);
  EXPECT_EQ(init.sq_sig_all, 0);
  EXPECT_EQ(init.cap.max_recv_wr, 0u);  // it has no receives
  ASSERT_EQ(ibv_query_qp(qp.get(), &now, IBV_QP_STATE, nullptr), 0);
}

TEST_F(QpTest, ASharedQueueIsNothingForRawPackets) {
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {4, 1, 0};
  const Owned<ibv_srq> srq(ibv_create_srq(pd_.get(), &srq_attr));
  ibv_qp_init_attr attr{};
  attr.qp_type = IBV_QPT_RAW_PACKET;
  attr.srq = srq.get();
  attr.cap = {1, 1, 1, 1, 0};
  EXPECT_EQ(create(attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(QpTest, WhatAQueuePairNeedsIsAskedFor) {
  for (int missing = 0; missing < 4; missing++) {
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {1, 1, 1, 1, 0};
    attr.pd = missing != 0 ? pd_.get() : nullptr;
    attr.send_cq = missing != 1 ? cq_.get() : nullptr;
    attr.recv_cq = missing != 2 ? recv_cq_.get() : nullptr;
    attr.comp_mask = missing != 3 ? unsigned{IBV_QP_INIT_ATTR_PD} : 0;
    EXPECT_EQ(ibv_create_qp_ex(device(), &attr), nullptr) << missing;
    EXPECT_EQ(errno, EINVAL);
  }
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.pd = pd_.get();
  attr.send_cq = attr.recv_cq = cq_.get();
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  attr.create_flags = IBV_QP_CREATE_SCATTER_FCS;
  EXPECT_EQ(ibv_create_qp_ex(device(), &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attr.create_flags = 0;
  EXPECT_NE(Owned<ibv_qp>(ibv_create_qp_ex(device(), &attr)), nullptr);
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD;
  EXPECT_EQ(ibv_create_qp_ex(device(), &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

/// "Only if the queue pair is in that state."
TEST_F(QpTest, CurrentStateHasToHold) {
  make_pair();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  for (int state = IBV_QPS_RESET; state <= IBV_QPS_ERR + 1; state++) {
    attr.cur_qp_state = static_cast<ibv_qp_state>(state);
    const int expected = state == IBV_QPS_RTS ? 0 : EINVAL;
    EXPECT_EQ(ibv_modify_qp(left_.get(), &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), expected) << state;
    EXPECT_EQ(left_->state, IBV_QPS_RTS);
  }
}

TEST_F(QpTest, ValuesOutOfRangeAreRefused) {
  const auto fresh = [&] { return make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {}); };
  ibv_qp_attr good{};
  good.qp_state = IBV_QPS_RTR;
  good.path_mtu = IBV_MTU_4096;
  good.dest_qp_num = 0xffffff;
  good.max_dest_rd_atomic = 128;
  good.min_rnr_timer = 31;
  good.ah_attr = own_address(1);
  good.timeout = 31;
  good.retry_cnt = good.rnr_retry = 7;
  good.max_rd_atomic = 128;
  EXPECT_EQ(ibv_modify_qp(fresh().get(), &good, kToRtr), 0);
  const auto refused = [&](int mask, auto&& change) {
    const Owned<ibv_qp> qp = fresh();
    ibv_qp_attr attr = good;
    if (mask == kToRts) {
      EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kToRtr), 0);
      attr.qp_state = IBV_QPS_RTS;
    }
    change(attr);
    const bool no = ibv_modify_qp(qp.get(), &attr, mask) == EINVAL;
    return no && qp->state == (mask == kToRts ? IBV_QPS_RTR : IBV_QPS_INIT);
  };
  EXPECT_TRUE(refused(kToRtr, [](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(0); }));
  EXPECT_TRUE(refused(kToRtr, [](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(6); }));
  EXPECT_TRUE(refused(kToRtr, [](ibv_qp_attr& a) { a.dest_qp_num = 0x1000000; }));
  EXPECT_TRUE(refused(kToRtr, [](ibv_qp_attr& a) { a.max_dest_rd_atomic = 129; }));
  EXPECT_TRUE(refused(kToRtr, [](ibv_qp_attr& a) { a.min_rnr_timer = 32; }));
  EXPECT_TRUE(refused(kToRtr, [](ibv_qp_attr& a) { a.ah_attr.port_num = 2; }));
  EXPECT_TRUE(refused(kToRtr, [](ibv_qp_attr& a) { a.qp_state = static_cast<ibv_qp_state>(IBV_QPS_ERR + 1); }));
  EXPECT_TRUE(refused(kToRts, [](ibv_qp_attr& a) { a.timeout = 32; }));
  EXPECT_TRUE(refused(kToRts, [](ibv_qp_attr& a) { a.retry_cnt = 8; }));
  EXPECT_TRUE(refused(kToRts, [](ibv_qp_attr& a) { a.rnr_retry = 8; }));
  EXPECT_TRUE(refused(kToRts, [](ibv_qp_attr& a) { a.max_rd_atomic = 129; }));
}

/// There is one path, and its state never changes: programs may still set it.
TEST_F(QpTest, PathMigrationStateIsMigrated) {
  const Owned<ibv_qp> qp = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.ah_attr = own_address(1);
  attr.path_mig_state = IBV_MIG_ARMED;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kToRtr | IBV_QP_PATH_MIG_STATE), EINVAL);
  attr.path_mig_state = IBV_MIG_MIGRATED;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kToRtr | IBV_QP_PATH_MIG_STATE), 0);
}

TEST_F(QpTest, SizesAreForLife) {
  make_pair();
  ibv_qp_attr attr{};
  attr.cap = {100, 100, 4, 4, 64};
  EXPECT_EQ(ibv_modify_qp(left_.get(), &attr, IBV_QP_CAP), EOPNOTSUPP);
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(left_.get(), &attr, IBV_QP_STATE | IBV_QP_CAP), EOPNOTSUPP);
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
  ASSERT_EQ(ibv_modify_qp(left_.get(), &attr, kToRtr), 0);
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(left_.get(), &attr, IBV_QP_AV, &init), 0);
  EXPECT_EQ(attr.ah_attr.is_global, 0);
  EXPECT_EQ(attr.ah_attr.dlid, port.lid);
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

/// As a zeroed rdma_conn_param has it. The error is local, and nothing is sent to the peer.
TEST_F(QpTest, WithoutReadDepthReadsAndAtomicsAreItsOwnMistake) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP}) {
    make_pair();
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_SQD;
    ASSERT_EQ(ibv_modify_qp(left_.get(), &attr, IBV_QP_STATE), 0);
    ASSERT_EQ(ibv_modify_qp(left_.get(), &attr, IBV_QP_MAX_QP_RD_ATOMIC), 0);
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ibv_modify_qp(left_.get(), &attr, IBV_QP_STATE), 0);
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (opcode == IBV_WR_RDMA_READ) {
      wr.wr.rdma = {b_.addr(), b_.rkey()};
    } else {
      wr.wr.atomic = {b_.addr(), 0, 0, b_.rkey()};
    }
    ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
    EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_LOC_QP_OP_ERR);
  }
}

TEST_F(QpTest, QueueInUseIsBusy) {
  make_pair();
  EXPECT_EQ(ibv_destroy_cq(cq_.get()), EBUSY);
}

/// librdmacm exchanges these, and a connection fails when a side cannot answer.
TEST_F(QpTest, EnhancedConnectionsHaveNoOptions) {
  make_pair();
  ibv_ece ece{1, 2, 3};
  EXPECT_EQ(ibv_query_ece(left_.get(), &ece), 0);
  EXPECT_EQ(ece.vendor_id, 0x75726fu);
  EXPECT_EQ(ece.options, 0u);
  EXPECT_EQ(ece.comp_mask, 0u);
  ece.options = 0xff;
  EXPECT_EQ(ibv_set_ece(right_.get(), &ece), 0);
  EXPECT_EQ(ece.options, 0u);  // none is accepted
  ece.vendor_id = 0x2c9;
  EXPECT_EQ(ibv_set_ece(right_.get(), &ece), EINVAL);
  ece.vendor_id = 0;
  EXPECT_EQ(ibv_set_ece(right_.get(), &ece), EOPNOTSUPP);
}

TEST_F(QpTest, DataNeedNotArriveInOrder) {
  make_pair();
  // Since release 55 a flag asks for the answer as bits, another for that of the device alone; 4 is unknown.
  for (const uint32_t flags : {0u, 1u, 2u, 3u, 4u}) {
    EXPECT_EQ(ibv_query_qp_data_in_order(left_.get(), IBV_WR_RDMA_WRITE, flags), 0);
  }
}

}  // namespace
