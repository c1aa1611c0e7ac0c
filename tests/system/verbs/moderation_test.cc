// Completion events that wait for more completions, shared receive queues that get another size, and rate limits.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class ModerationTest : public PairTest {
 protected:
  void SetUp() override {
    events_cq_.reset(ibv_create_cq(device(), 64, nullptr, channel_.get(), 0));
    ASSERT_NE(events_cq_, nullptr);
    right_ = make_qp(pd_.get(), events_cq_.get(), events_cq_.get(), {});
    left_ = make_qp(pd_.get(), cq_.get(), cq_.get(), {});
    connect(right_.get(), left_->qp_num);
    connect(left_.get(), right_->qp_num);
    for (uint64_t i = 0; i < 16; i++) ASSERT_EQ(post_recv(right_.get(), i, b_.sge(0, 64)), 0);
  }
  void TearDown() override {
    left_.reset();
    right_.reset();
  }
  void moderate(uint16_t count, uint16_t period_us) {
    ibv_modify_cq_attr attr{IBV_CQ_ATTR_MODERATE, {count, period_us}};
    ASSERT_EQ(ibv_modify_cq(events_cq_.get(), &attr), 0);
  }
  void send(int count) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    for (int i = 0; i < count; i++) ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  }
  bool event_within(int timeout_ms) {
    pollfd p{channel_->fd, POLLIN, 0};
    if (::poll(&p, 1, timeout_ms) != 1) return false;
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    EXPECT_EQ(ibv_get_cq_event(channel_.get(), &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
    return true;
  }

  Owned<ibv_comp_channel> channel_{ibv_create_comp_channel(device())};
  Owned<ibv_cq> events_cq_;
};

TEST_F(ModerationTest, TheDeviceSaysHowFar) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(device(), nullptr, &attr), 0);
  EXPECT_EQ(attr.cq_mod_caps.max_cq_count, 65535);
  EXPECT_EQ(attr.cq_mod_caps.max_cq_period, 65535);
}

TEST_F(ModerationTest, ByCount) {
  moderate(4, 0);
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
  send(3);
  EXPECT_FALSE(event_within(100));
  send(1);
  EXPECT_TRUE(event_within(5000));
  poll(events_cq_.get(), 4);
  EXPECT_FALSE(event_within(0));  // one event for all four
}

TEST_F(ModerationTest, ByTime) {
  moderate(0, 60000);
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
  const auto before = Clock::now();
  send(2);
  EXPECT_TRUE(event_within(5000));
  EXPECT_GE(Clock::now() - before, milliseconds(55));
  poll(events_cq_.get(), 2);
}

TEST_F(ModerationTest, ByWhicheverComesFirst) {
  moderate(3, 60000);
  bool before_its_time = false;  // by chance on a busy machine, so there are several tries
  for (int i = 0; i < 4 && !before_its_time; i++) {
    ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
    const auto before = Clock::now();
    send(3);
    EXPECT_TRUE(event_within(5000));
    before_its_time = Clock::now() - before < milliseconds(50);
    poll(events_cq_.get(), 3);
  }
  EXPECT_TRUE(before_its_time);
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
  const auto before = Clock::now();
  send(2);
  EXPECT_TRUE(event_within(5000));
  EXPECT_GE(Clock::now() - before, milliseconds(55));
  poll(events_cq_.get(), 2);
}

/// Completions from before the arming are held back, too, counted from when they came.
TEST_F(ModerationTest, CompletionsFromBeforeTheArming) {
  moderate(10, 50000);
  send(2);
  std::this_thread::sleep_for(milliseconds(5));
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
  EXPECT_TRUE(event_within(5000));
  poll(events_cq_.get(), 2);
}

TEST_F(ModerationTest, EndsAtOnce) {
  moderate(10, 0);
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
  send(2);
  EXPECT_FALSE(event_within(50));
  moderate(0, 0);  // raises what was held back
  EXPECT_TRUE(event_within(5000));
  poll(events_cq_.get(), 2);
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
  send(1);
  EXPECT_TRUE(event_within(5000));
  poll(events_cq_.get(), 1);
}

TEST_F(ModerationTest, WhatIsRefused) {
  ibv_modify_cq_attr attr{};
  EXPECT_EQ(ibv_modify_cq(cq_.get(), &attr), EINVAL);
  EXPECT_EQ(errno, EINVAL);
  attr.attr_mask = 1u << 4;
  EXPECT_EQ(ibv_modify_cq(cq_.get(), &attr), EOPNOTSUPP);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

// Shared receive queues.

class SrqTest : public PairTest {
 protected:
  void make(uint32_t max_wr) {
    ibv_srq_init_attr attr{};
    attr.attr = {max_wr, 2, 0};
    srq_.reset(ibv_create_srq(pd_.get(), &attr));
    ASSERT_NE(srq_, nullptr);
  }
  int post(uint64_t id) {
    ibv_sge sges[2] = {b_.sge(64 * id, 5), b_.sge(64 * id + 5, 59)};
    ibv_recv_wr recv{id, nullptr, sges, 2};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq_.get(), &recv, &bad);
  }
  int resize(uint32_t max_wr) {
    ibv_srq_attr attr{max_wr, 0, 0};
    errno = 0;
    const int error = ibv_modify_srq(srq_.get(), &attr, IBV_SRQ_MAX_WR);
    EXPECT_EQ(errno, error);
    return error;
  }

  Owned<ibv_srq> srq_;
};

TEST_F(SrqTest, AnotherSizeKeepsWhatIsPosted) {
  make(4);
  QpOptions options;
  options.srq = srq_.get();
  make_pair(options);
  for (uint64_t i = 0; i < 4; i++) ASSERT_EQ(post(i), 0);
  EXPECT_EQ(post(4), ENOMEM);
  ASSERT_EQ(resize(8), 0);
  ibv_srq_attr now{};
  ASSERT_EQ(ibv_query_srq(srq_.get(), &now), 0);
  EXPECT_EQ(now.max_wr, 8u);
  for (uint64_t i = 4; i < 8; i++) ASSERT_EQ(post(i), 0);
  EXPECT_EQ(post(8), ENOMEM);
  EXPECT_EQ(resize(7), EINVAL);  // it holds more
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  for (uint64_t i = 0; i < 8; i++) {
    a_.fill(static_cast<uint8_t>(i));
    ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 64)), 0);
    const ibv_wc wc = poll(recv_cq_.get(), 1)[0];
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, i);
    EXPECT_TRUE(std::equal(a_.data(), a_.data() + 64, b_.data() + 64 * i)) << i;
  }
  EXPECT_EQ(resize(1), 0);
  EXPECT_EQ(post(0), 0);
  EXPECT_EQ(post(1), ENOMEM);
  left_.reset();
  right_.reset();
}

/// Keys of its receives must be of its own protection domain, not of the queue pair's.
TEST_F(SrqTest, ReceivesBelongToItsProtectionDomain) {
  const Owned<ibv_pd> other(ibv_alloc_pd(device()));
  Buffer target(other.get(), 64);
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {4, 1, 0};
  const Owned<ibv_srq> srq(ibv_create_srq(other.get(), &srq_attr));
  QpOptions options;
  options.srq = srq.get();
  make_pair(options);
  ibv_sge sge = target.sge(0, 16);
  ibv_recv_wr receive{1, nullptr, &sge, 1};
  ibv_recv_wr* bad = nullptr;
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(ibv_post_srq_recv(srq.get(), &receive, &bad), 0);
  ASSERT_EQ(post_send(left_.get(), send, a_.sge(0, 16)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  sge = b_.sge(0, 16);
  ASSERT_EQ(ibv_post_srq_recv(srq.get(), &receive, &bad), 0);
  ASSERT_EQ(post_send(left_.get(), send, a_.sge(0, 16)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_REM_OP_ERR);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].status, IBV_WC_LOC_PROT_ERR);
  left_.reset();
  right_.reset();
}

TEST_F(SrqTest, LimitAndSizeTogether) {
  make(4);
  ibv_srq_attr both{16, 0, 10};
  ASSERT_EQ(ibv_modify_srq(srq_.get(), &both, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
  ibv_srq_attr now{};
  ASSERT_EQ(ibv_query_srq(srq_.get(), &now), 0);
  EXPECT_EQ(now.max_wr, 16u);
  EXPECT_EQ(now.max_sge, 2u);
  EXPECT_EQ(now.srq_limit, 10u);
  EXPECT_EQ(resize(9), EINVAL);  // below the limit
  EXPECT_EQ(resize(0), EINVAL);
  EXPECT_EQ(resize(32769), EINVAL);
}

/// Several queue pairs share one; SENDs and WRITEs of a connection use its receives in the order of posting.
TEST_F(SrqTest, UnreliableConnectionsShareOne) {
  make(8);
  QpOptions options;
  options.type = IBV_QPT_UC;
  options.srq = srq_.get();
  make_pair(options);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(right_.get(), &attr, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(init.srq, srq_.get());
  EXPECT_EQ(ibv_destroy_srq(srq_.get()), EBUSY);
  for (uint64_t i = 0; i < 4; i++) ASSERT_EQ(post(i), 0);
  a_.fill(3);
  ibv_send_wr wr{};
  for (uint64_t i = 0; i < 3; i++) {
    ibv_qp* const sender = i == 1 ? right_.get() : left_.get();
    wr.opcode = i == 2 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND;
    wr.wr.rdma = {b_.addr() + 4096, b_.rkey()};
    ASSERT_EQ(post_send(sender, wr, a_.sge(100 * i, 60)), 0);
    const ibv_wc wc = poll(recv_cq_.get(), 1)[0];
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, i);
    EXPECT_EQ(wc.qp_num, i == 1 ? left_->qp_num : right_->qp_num);
    EXPECT_EQ(std::memcmp(b_.data() + (i == 2 ? 4096 : 64 * i), a_.data() + 100 * i, 60), 0);
  }
  // The shared queue outlives a queue pair that failed.
  to_error(right_.get());
  const ibv_async_event last = wait_for(IBV_EVENT_QP_LAST_WQE_REACHED, right_.get());
  ibv_async_event copy = last;
  ibv_ack_async_event(&copy);
  expect_nothing(recv_cq_.get());
  left_.reset();
  right_.reset();
}

// Rates.

class RateTest : public PairTest {
 protected:
  static constexpr uint32_t kBytes = 60000;
  /// The time that eight WRITEs take.
  double seconds() {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {b_.addr(), b_.rkey()};
    const auto before = Clock::now();
    for (int i = 0; i < 8; i++) EXPECT_EQ(post_send(left_.get(), wr, a_.sge(0, kBytes)), 0);
    poll(cq_.get(), 8);
    return std::chrono::duration<double>(Clock::now() - before).count();
  }
};

TEST_F(RateTest, AQueuePairKeepsToItsRate) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    QpOptions options;
    options.type = type;
    make_pair(options);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.rate_limit = 20000;  // 20 Mb/s: 3.84 Mb take about 190 ms
    ASSERT_EQ(ibv_modify_qp(left_.get(), &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT), 0);
    ibv_qp_attr now{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(left_.get(), &now, IBV_QP_RATE_LIMIT, &init), 0);
    EXPECT_EQ(now.rate_limit, 20000u);
    const double slow = seconds();
    EXPECT_GT(slow, 0.15) << type;
    ibv_qp_rate_limit_attr off{};
    ASSERT_EQ(ibv_modify_qp_rate_limit(left_.get(), &off), 0);
    EXPECT_LT(std::min({seconds(), seconds(), seconds()}), 0.1) << type;  // a busy machine may need several tries
  }
}

TEST_F(RateTest, DatagramsToo) {
  const Owned<ibv_qp> qp = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {.type = IBV_QPT_UD});
  connect(qp.get(), 0);
  ibv_ah_attr address = own_address(1);
  const Owned<ibv_ah> ah(ibv_create_ah(pd_.get(), &address));
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.rate_limit = 2000;  // 64 datagrams of a little more than 1024 bytes take about 270 ms
  ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.ud = {ah.get(), qp->qp_num, 0};
  const auto before = Clock::now();
  for (int i = 0; i < 64; i++) {
    ASSERT_EQ(post_send(qp.get(), wr, a_.sge(0, 1024)), 0);
    EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  }
  EXPECT_GT(Clock::now() - before, milliseconds(180));
}

TEST_F(RateTest, WhatIsRefused) {
  ibv_device_attr_ex device_attr{};
  ASSERT_EQ(ibv_query_device_ex(device(), nullptr, &device_attr), 0);
  const ibv_packet_pacing_caps& caps = device_attr.packet_pacing_caps;
  EXPECT_EQ(caps.qp_rate_limit_min, 1u);
  EXPECT_EQ(caps.supported_qpts,
            (1u << IBV_QPT_RC) | (1u << IBV_QPT_UC) | (1u << IBV_QPT_UD) | (1u << IBV_QPT_RAW_PACKET));
  make_pair();
  ibv_qp_rate_limit_attr limit{caps.qp_rate_limit_max, 0, 0, 0};
  EXPECT_EQ(ibv_modify_qp_rate_limit(left_.get(), &limit), 0);
  limit.rate_limit++;
  EXPECT_EQ(ibv_modify_qp_rate_limit(left_.get(), &limit), EINVAL);
  limit = {1000, 0, 0, 1};
  EXPECT_EQ(ibv_modify_qp_rate_limit(left_.get(), &limit), EINVAL);
  const Owned<ibv_qp> fresh = make_qp(pd_.get(), cq_.get(), cq_.get(), {});
  limit.comp_mask = 0;
  EXPECT_EQ(ibv_modify_qp_rate_limit(fresh.get(), &limit), EINVAL);  // not connected
}

}  // namespace
