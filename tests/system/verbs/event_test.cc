// Async events.
#include <fcntl.h>
#include <poll.h>

#include <chrono>
#include <thread>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

class EventTest : public PairTest {
 protected:
  void send_before_rts();
};

TEST_F(EventTest, LimitOfASharedReceiveQueue) {
  ibv_srq_init_attr attr{};
  attr.attr = {8, 1, 0};
  Owned<ibv_srq> srq(ibv_create_srq(pd_.get(), &attr));
  QpOptions options;
  options.srq = srq.get();
  make_pair(options);
  for (uint64_t i = 0; i < 4; i++) {
    ibv_sge sge = b_.sge(0, 64);
    ibv_recv_wr recv{i, nullptr, &sge, 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srq.get(), &recv, &bad), 0);
  }
  ibv_srq_attr limit{0, 0, 3};
  ASSERT_EQ(ibv_modify_srq(srq.get(), &limit, IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(ibv_query_srq(srq.get(), &limit), 0);
  EXPECT_EQ(limit.srq_limit, 3u);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  for (int i = 0; i < 2; i++) ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  poll(recv_cq_.get(), 2);
  ibv_async_event event = wait_for(IBV_EVENT_SRQ_LIMIT_REACHED, srq.get());
  ibv_ack_async_event(&event);
  ASSERT_EQ(ibv_query_srq(srq.get(), &limit), 0);
  EXPECT_EQ(limit.srq_limit, 0u);  // once
  ibv_srq_attr most{0, 0, limit.max_wr};
  EXPECT_EQ(ibv_modify_srq(srq.get(), &most, IBV_SRQ_LIMIT), 0);
  most.srq_limit++;
  EXPECT_EQ(ibv_modify_srq(srq.get(), &most, IBV_SRQ_LIMIT), EINVAL);
  left_.reset();
  right_.reset();
}

/// Events of an object that were not taken are removed with it: the descriptor is not readable for them any more.
TEST_F(EventTest, AnObjectThatGoesTakesItsEventsAlong) {
  ibv_async_event other;
  for (pollfd p{device()->async_fd, POLLIN, 0}; ::poll(&p, 1, 50) == 1;) {  // of earlier tests
    ASSERT_EQ(ibv_get_async_event(device(), &other), 0);
    ibv_ack_async_event(&other);
  }
  ibv_srq_init_attr attr{};
  attr.attr = {8, 1, 0};
  const Owned<ibv_srq> srq(ibv_create_srq(pd_.get(), &attr));
  QpOptions options;
  options.srq = srq.get();
  make_pair(options);
  to_error(left_.get());
  to_error(right_.get());
  pollfd p{device()->async_fd, POLLIN, 0};
  ASSERT_EQ(::poll(&p, 1, 2000), 1);
  left_.reset();
  // The other object's event is still there, and no other.
  ASSERT_EQ(::poll(&p, 1, 0), 1);
  ibv_async_event event = wait_for(IBV_EVENT_QP_LAST_WQE_REACHED, right_.get());
  ibv_ack_async_event(&event);
  EXPECT_EQ(::poll(&p, 1, 0), 0);
  right_.reset();
  EXPECT_EQ(::poll(&p, 1, 0), 0);
}

TEST_F(EventTest, LastReceiveOfAQueuePairOnASharedQueue) {
  ibv_srq_init_attr attr{};
  attr.attr = {8, 1, 0};
  Owned<ibv_srq> srq(ibv_create_srq(pd_.get(), &attr));
  QpOptions options;
  options.srq = srq.get();
  make_pair(options);
  to_error(left_.get());
  ibv_async_event event = wait_for(IBV_EVENT_QP_LAST_WQE_REACHED, left_.get());
  ibv_ack_async_event(&event);
  to_error(left_.get());  // already in that state: no event
  pollfd p{device()->async_fd, POLLIN, 0};
  EXPECT_EQ(::poll(&p, 1, 0), 0);
  left_.reset();
  right_.reset();
}

TEST_F(EventTest, ResponderTellsOfAnAccessViolation) {
  make_pair();
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma = {b_.addr(), b_.rkey() + 1};
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_REM_ACCESS_ERR);
  ibv_async_event event = wait_for(IBV_EVENT_QP_ACCESS_ERR, right_.get());
  // Destroying the queue pair waits until the event is acknowledged.
  std::thread acknowledger([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ibv_ack_async_event(&event);
  });
  right_.reset();
  acknowledger.join();
}

/// The program stops sending, is told when all requests in progress are complete, and goes on.
TEST_F(EventTest, ASendQueueIsDrained) {
  make_pair();
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);  // there is no receive yet: it waits
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  ASSERT_EQ(ibv_modify_qp(left_.get(), &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(left_.get(), &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_SQD);
  EXPECT_EQ(attr.sq_draining, 1);
  ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 64)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  ibv_async_event event = wait_for(IBV_EVENT_SQ_DRAINED, left_.get());
  ibv_ack_async_event(&event);
  ASSERT_EQ(ibv_query_qp(left_.get(), &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.sq_draining, 0);
  ASSERT_EQ(post_recv(right_.get(), 2, b_.sge(0, 64)), 0);
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  expect_nothing(cq_.get());  // nothing new is sent in this state
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ibv_modify_qp(left_.get(), &attr, IBV_QP_STATE), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
}

/// The first packet arrives before the program moves its queue pair to RTS.
void EventTest::send_before_rts() {
  left_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  right_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  connect(left_.get(), right_->qp_num);
  ibv_qp_attr left{};
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(left_.get(), &left, IBV_QP_STATE, &init), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = left_->qp_num;
  attr.rq_psn = left.sq_psn;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 1;
  attr.ah_attr = own_address(1);
  ASSERT_EQ(ibv_modify_qp(right_.get(), &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            0);
  ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 64)), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
}

TEST_F(EventTest, CommunicationIsEstablished) {
  send_before_rts();
  poll(recv_cq_.get(), 1);
  ibv_async_event event = wait_for(IBV_EVENT_COMM_EST, right_.get());
  ibv_ack_async_event(&event);
}

/// Also where nothing else drives the engine (UROCE_PROGRESS=inline).
TEST_F(EventTest, WhoWaitsForAnAsyncEventDrives) {
  send_before_rts();
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(device(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_COMM_EST);
  EXPECT_EQ(event.element.qp, right_.get());
  ibv_ack_async_event(&event);
}

/// An atomic at an odd address is an invalid request.
TEST_F(EventTest, ResponderTellsOfAnInvalidRequest) {
  make_pair();
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.wr.atomic = {b_.addr() + 1, 1, 0, b_.rkey()};
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_REM_INV_REQ_ERR);
  ibv_async_event event = wait_for(IBV_EVENT_QP_REQ_ERR, right_.get());
  ibv_ack_async_event(&event);
}

/// A queue pair whose completion is lost enters the error state.
TEST_F(EventTest, AQueuePairWithoutRoomForItsCompletions) {
  const Owned<ibv_cq> small(ibv_create_cq(device(), 1, nullptr, nullptr, 0));
  {
    const Owned<ibv_qp> sender = make_qp(pd_.get(), small.get(), small.get(), {});
    const Owned<ibv_qp> receiver = make_qp(pd_.get(), cq_.get(), cq_.get(), {});
    connect(sender.get(), receiver->qp_num);
    connect(receiver.get(), sender->qp_num);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {b_.addr(), b_.rkey()};
    for (int i = 0; i < 3; i++) ASSERT_EQ(post_send(sender.get(), wr, a_.sge(0, 8)), 0);
    expect_nothing(cq_.get());
    ibv_async_event event = wait_for(IBV_EVENT_QP_FATAL, sender.get());
    ibv_ack_async_event(&event);
  }
}

}  // namespace
