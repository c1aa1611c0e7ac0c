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
  /// The next event about `object`, unacknowledged; others are acknowledged and passed over.
  ibv_async_event wait_for(ibv_event_type type, const void* object) {
    for (;;) {
      pollfd p{device()->async_fd, POLLIN, 0};
      if (::poll(&p, 1, 2000) != 1) {
        ADD_FAILURE() << "no event: " << ibv_event_type_str(type);
        return {};
      }
      ibv_async_event event{};
      EXPECT_EQ(ibv_get_async_event(device(), &event), 0);
      if (event.event_type == type && event.element.qp == object) return event;
      ibv_ack_async_event(&event);
    }
  }
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
  EXPECT_EQ(ibv_modify_srq(srq.get(), &limit, IBV_SRQ_MAX_WR), EOPNOTSUPP);
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

/// What an object has not told yet goes with it: the descriptor does not call for it any more.
TEST_F(EventTest, AnObjectThatGoesTakesItsEventsAlong) {
  ibv_async_event other;
  for (pollfd p{device()->async_fd, POLLIN, 0}; ::poll(&p, 1, 50) == 1;) {  // of the tests before
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
  // The other's is still there, and only that.
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

}  // namespace
