// XRC: messages to shared receive queues that are named by number, targets that several handles share, states.
#include <poll.h>

#include <cstring>
#include <vector>

#include "xrc_fixture.h"

namespace verbs_test {
namespace {

// Messages.

TEST_F(XrcTest, AMessageToEachOfTwoQueues) {
  make_connection();
  Owned<ibv_cq> other_cq(ibv_create_cq(device(), 16, nullptr, nullptr, 0));
  Owned<ibv_srq> first = make_queue();
  Owned<ibv_srq> second = make_queue(pd_.get(), xrcd_.get(), other_cq.get());
  a_.fill(3);
  post_to(first, 10, b_.sge(0, 4096));
  post_to(second, 20, b_.sge(8192, 4096));
  EXPECT_EQ(post_send(left_.get(), to_queue(IBV_WR_SEND, number_of(second), 1), a_.sge(0, 3000)), 0);
  ibv_send_wr wr = to_queue(IBV_WR_SEND_WITH_IMM, number_of(first), 2);
  wr.imm_data = 0x04030201;
  EXPECT_EQ(post_send(left_.get(), wr, a_.sge(100, 16)), 0);
  EXPECT_EQ(poll(cq_.get(), 2)[1].wr_id, 2u);
  const ibv_wc to_second = poll(other_cq.get(), 1)[0];
  EXPECT_EQ(to_second.wr_id, 20u);
  EXPECT_EQ(to_second.byte_len, 3000u);
  EXPECT_EQ(to_second.opcode, IBV_WC_RECV);
  EXPECT_EQ(to_second.qp_num, right_->qp_num);
  const ibv_wc to_first = poll(recv_cq_.get(), 1)[0];
  EXPECT_EQ(to_first.wr_id, 10u);
  EXPECT_EQ(to_first.imm_data, 0x04030201u);
  EXPECT_EQ(to_first.wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(std::memcmp(b_.data() + 8192, a_.data(), 3000), 0);
  EXPECT_EQ(std::memcmp(b_.data(), a_.data() + 100, 16), 0);
}

TEST_F(XrcTest, SeveralInitiatorsFillOneQueue) {
  Owned<ibv_srq> queue = make_queue();
  QpOptions options;
  options.type = IBV_QPT_XRC_SEND;
  std::vector<Owned<ibv_qp>> initiators;
  std::vector<Owned<ibv_qp>> targets;
  for (uint64_t i = 0; i < 4; i++) {
    initiators.push_back(make_qp(pd_.get(), cq_.get(), nullptr, options));
    targets.emplace_back(create_target(xrcd_.get()));
    to_init(targets[i].get());
    connect(initiators[i].get(), targets[i]->qp_num);
    connect(targets[i].get(), initiators[i]->qp_num);
    post_to(queue, i, b_.sge(i * 64, 64));
  }
  for (size_t i = 0; i < 4; i++) {
    EXPECT_EQ(post_send(initiators[i].get(), to_queue(IBV_WR_SEND, number_of(queue)), a_.sge(0, 8)), 0);
    EXPECT_EQ(poll(recv_cq_.get(), 1)[0].qp_num, targets[i]->qp_num);
  }
  poll(cq_.get(), 4);
}

TEST_F(XrcTest, WriteReadAndAtomics) {
  make_connection();
  Owned<ibv_srq> queue = make_queue();
  const uint32_t number = number_of(queue);
  a_.fill(9);
  ibv_send_wr wr = to_queue(IBV_WR_RDMA_WRITE_WITH_IMM, number, 1);
  wr.imm_data = 7;
  wr.wr.rdma.remote_addr = b_.addr();
  wr.wr.rdma.rkey = b_.rkey();
  post_to(queue, 30, b_.sge(60000, 4));
  EXPECT_EQ(post_send(left_.get(), wr, a_.sge(0, 5000)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  const ibv_wc written = poll(recv_cq_.get(), 1)[0];
  EXPECT_EQ(written.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(written.byte_len, 5000u);
  EXPECT_EQ(std::memcmp(b_.data(), a_.data(), 5000), 0);
  wr = to_queue(IBV_WR_RDMA_READ, number, 2);
  wr.wr.rdma.remote_addr = b_.addr();
  wr.wr.rdma.rkey = b_.rkey();
  EXPECT_EQ(post_send(left_.get(), wr, a_.sge(20000, 5000)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].byte_len, 5000u);
  EXPECT_EQ(std::memcmp(a_.data() + 20000, a_.data(), 5000), 0);
  uint64_t before;
  std::memcpy(&before, b_.data(), 8);
  wr = to_queue(IBV_WR_ATOMIC_FETCH_AND_ADD, number, 3);
  wr.wr.atomic.remote_addr = b_.addr();
  wr.wr.atomic.rkey = b_.rkey();
  wr.wr.atomic.compare_add = 5;
  EXPECT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].opcode, IBV_WC_FETCH_ADD);
  uint64_t after;
  std::memcpy(&after, b_.data(), 8);
  EXPECT_EQ(after, before + 5);
}

TEST_F(XrcTest, TheBuilderNamesTheQueue) {
  make_connection(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE);
  Owned<ibv_srq> queue = make_queue();
  post_to(queue, 5, b_.sge(0, 64));
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(left_.get());
  ASSERT_NE(qp, nullptr);
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(qp);
  ibv_wr_set_xrc_srqn(qp, number_of(queue));
  ibv_wr_set_sge(qp, a_.lkey(), a_.addr(), 24);
  EXPECT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].byte_len, 24u);
}

TEST_F(XrcTest, NoSuchQueueIsAnInvalidRequest) {
  make_connection();
  Owned<ibv_srq> queue = make_queue();
  EXPECT_EQ(status_of_send(number_of(queue) ^ 0x10000), IBV_WC_REM_INV_REQ_ERR);
  expect_nothing(recv_cq_.get());
}

TEST_F(XrcTest, AQueueOfAnotherDomainIsAnInvalidRequest) {
  make_connection();
  OwnedXrcd other(open_xrcd());
  Owned<ibv_srq> queue = make_queue(pd_.get(), other.get(), recv_cq_.get());
  post_to(queue, 1, b_.sge(0, 64));
  EXPECT_EQ(status_of_send(number_of(queue)), IBV_WC_REM_INV_REQ_ERR);
  expect_nothing(recv_cq_.get());
}

TEST_F(XrcTest, KeysBelongToTheQueuesProtectionDomain) {
  make_connection();
  Owned<ibv_pd> other(ibv_alloc_pd(device()));
  Owned<ibv_srq> queue = make_queue(other.get(), xrcd_.get(), recv_cq_.get());
  ibv_send_wr wr = to_queue(IBV_WR_RDMA_WRITE, number_of(queue));
  wr.wr.rdma.remote_addr = b_.addr();
  wr.wr.rdma.rkey = b_.rkey();
  EXPECT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_REM_ACCESS_ERR);
}

// Shared targets.

TEST_F(XrcTest, ATargetIsOpenedAgain) {
  make_connection();
  Owned<ibv_srq> queue = make_queue();
  ibv_qp_open_attr attr{};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT;
  attr.qp_num = right_->qp_num;
  attr.xrcd = xrcd_.get();
  attr.qp_context = &attr;
  attr.qp_type = IBV_QPT_XRC_RECV;
  Owned<ibv_qp> again(ibv_open_qp(device(), &attr));
  ASSERT_NE(again, nullptr);
  EXPECT_NE(again.get(), right_.get());
  EXPECT_EQ(again->qp_num, right_->qp_num);
  EXPECT_EQ(again->qp_context, &attr);
  EXPECT_EQ(again->state, IBV_QPS_RTS);
  right_.reset();  // the queue pair lives as long as any handle
  post_to(queue, 1, b_.sge(0, 64));
  EXPECT_EQ(status_of_send(number_of(queue)), IBV_WC_SUCCESS);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].qp_num, again->qp_num);
  again.reset();
  attr.comp_mask &= ~unsigned{IBV_QP_OPEN_ATTR_CONTEXT};
  expect_refused(ibv_open_qp(device(), &attr), EINVAL);  // it is gone
}

TEST_F(XrcTest, WhatCannotBeOpened) {
  make_connection();
  OwnedXrcd other(open_xrcd());
  ibv_qp_open_attr good{};
  good.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  good.qp_num = right_->qp_num;
  good.xrcd = xrcd_.get();
  good.qp_type = IBV_QPT_XRC_RECV;
  for (const uint32_t missing : {IBV_QP_OPEN_ATTR_NUM, IBV_QP_OPEN_ATTR_XRCD, IBV_QP_OPEN_ATTR_TYPE}) {
    ibv_qp_open_attr attr = good;
    attr.comp_mask &= ~missing;
    expect_refused(ibv_open_qp(device(), &attr), EINVAL);
  }
  ibv_qp_open_attr attr = good;
  attr.comp_mask |= IBV_QP_OPEN_ATTR_RESERVED;
  expect_refused(ibv_open_qp(device(), &attr), EOPNOTSUPP);
  attr = good;
  attr.xrcd = other.get();
  expect_refused(ibv_open_qp(device(), &attr), EINVAL);
  attr = good;
  attr.qp_type = IBV_QPT_RC;
  expect_refused(ibv_open_qp(device(), &attr), EINVAL);
  attr = good;
  attr.qp_num = left_->qp_num;  // not a target
  expect_refused(ibv_open_qp(device(), &attr), EINVAL);
}

TEST_F(XrcTest, EveryHandleHearsOfEvents) {
  make_connection();
  ibv_qp_open_attr attr{};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  attr.qp_num = right_->qp_num;
  attr.xrcd = xrcd_.get();
  attr.qp_type = IBV_QPT_XRC_RECV;
  Owned<ibv_qp> again(ibv_open_qp(device(), &attr));
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(status_of_send(0x123456), IBV_WC_REM_INV_REQ_ERR);
  std::vector<ibv_qp*> told;
  for (pollfd ready{device()->async_fd, POLLIN, 0}; told.size() < 2 && ::poll(&ready, 1, 5000) == 1;) {
    ibv_async_event event;
    ASSERT_EQ(ibv_get_async_event(device(), &event), 0);
    if (event.event_type == IBV_EVENT_QP_REQ_ERR) told.push_back(event.element.qp);
    ibv_ack_async_event(&event);
  }
  EXPECT_EQ(told, (std::vector<ibv_qp*>{right_.get(), again.get()}));
}

TEST_F(XrcTest, TheLimitOfAQueue) {
  make_connection();
  Owned<ibv_srq> queue = make_queue();
  post_to(queue, 1, b_.sge(0, 64));
  post_to(queue, 2, b_.sge(64, 64));
  ibv_srq_attr limit{};
  limit.srq_limit = 2;
  ASSERT_EQ(ibv_modify_srq(queue.get(), &limit, IBV_SRQ_LIMIT), 0);
  EXPECT_EQ(status_of_send(number_of(queue)), IBV_WC_SUCCESS);
  ibv_async_event event;
  do {
    pollfd ready{device()->async_fd, POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 5000), 1);
    ASSERT_EQ(ibv_get_async_event(device(), &event), 0);
    ibv_ack_async_event(&event);
  } while (event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, queue.get());
}

// States.

/// Attributes of the other side are left out, as programs that know only RC set them.
TEST_F(XrcTest, AttributesOfRcAreTaken) {
  make_connection();
  for (ibv_qp* const qp : {left_.get(), right_.get()}) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RESET;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    to_init(qp);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.ah_attr = own_address(1);
    attr.max_dest_rd_atomic = 1;
    attr.dest_qp_num = qp == left_.get() ? right_->qp_num : left_->qp_num;
    const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, rtr), 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.max_rd_atomic = 1;
    const int rts =
        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, rts), 0);
    attr.qkey = 1;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_QKEY), EINVAL);
    attr.rate_limit = 1000;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT), EINVAL);
  }
}

}  // namespace
}  // namespace verbs_test
