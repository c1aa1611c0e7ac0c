// XRC domains, shared receive queues and queue pairs, for tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <memory>

#include "verbs_fixture.h"

namespace verbs_test {

struct CloseXrcd {
  void operator()(ibv_xrcd* p) const { EXPECT_EQ(ibv_close_xrcd(p), 0); }
};
using OwnedXrcd = std::unique_ptr<ibv_xrcd, CloseXrcd>;

inline ibv_xrcd* open_xrcd(int fd = -1, int oflags = O_CREAT) {
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = fd;
  attr.oflags = oflags;
  return ibv_open_xrcd(device(), &attr);
}

inline void expect_refused(const void* made, int error) {
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(errno, error);
}

class XrcTest : public PairTest {
 protected:
  void TearDown() override {
    left_.reset();
    right_.reset();
  }
  ibv_srq_init_attr_ex queue_attributes(ibv_pd* pd, ibv_xrcd* xrcd, ibv_cq* cq) {
    ibv_srq_init_attr_ex attr{};
    attr.attr = {8, 2, 0};
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    attr.srq_type = IBV_SRQT_XRC;
    attr.pd = pd;
    attr.xrcd = xrcd;
    attr.cq = cq;
    return attr;
  }
  Owned<ibv_srq> make_queue(ibv_pd* pd, ibv_xrcd* xrcd, ibv_cq* cq) {
    ibv_srq_init_attr_ex attr = queue_attributes(pd, xrcd, cq);
    Owned<ibv_srq> queue(ibv_create_srq_ex(device(), &attr));
    EXPECT_NE(queue, nullptr);
    return queue;
  }
  Owned<ibv_srq> make_queue() { return make_queue(pd_.get(), xrcd_.get(), recv_cq_.get()); }
  uint32_t number_of(const Owned<ibv_srq>& queue) {
    uint32_t number = 0;
    EXPECT_EQ(ibv_get_srq_num(queue.get(), &number), 0);
    EXPECT_NE(number, 0u);
    return number;
  }
  void post_to(const Owned<ibv_srq>& queue, uint64_t wr_id, ibv_sge sge) {
    ibv_recv_wr wr{wr_id, nullptr, &sge, 1};
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_srq_recv(queue.get(), &wr, &bad), 0);
  }
  ibv_qp* create_target(ibv_xrcd* xrcd) {
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_XRC_RECV;
    attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attr.xrcd = xrcd;
    attr.qp_context = this;
    return ibv_create_qp_ex(device(), &attr);
  }
  void to_init(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
  }
  /// left_ is an initiator, right_ its target.
  void make_connection(uint64_t send_ops = 0) {
    QpOptions options;
    options.type = IBV_QPT_XRC_SEND;
    options.send_ops = send_ops;
    left_ = make_qp(pd_.get(), cq_.get(), nullptr, options);
    right_.reset(create_target(xrcd_.get()));
    ASSERT_NE(right_, nullptr);
    to_init(right_.get());
    connect(left_.get(), right_->qp_num);
    connect(right_.get(), left_->qp_num);
  }
  ibv_send_wr to_queue(ibv_wr_opcode opcode, uint32_t number, uint64_t wr_id = 1) {
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.qp_type.xrc.remote_srqn = number;
    return wr;
  }
  ibv_wc_status status_of_send(uint32_t number) {
    EXPECT_EQ(post_send(left_.get(), to_queue(IBV_WR_SEND, number), a_.sge(0, 16)), 0);
    return poll(cq_.get(), 1)[0].status;
  }

  OwnedXrcd xrcd_{open_xrcd()};
};

}  // namespace verbs_test
