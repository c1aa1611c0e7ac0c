// Completion queues: limits, resizing, and the extended polling interface.
#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <thread>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

class CompletionTest : public PairTest {
 protected:
  void write(size_t count) {
    for (size_t i = 0; i < count; i++) {
      ibv_send_wr wr{};
      wr.wr_id = i;
      wr.opcode = IBV_WR_RDMA_WRITE;
      wr.send_flags = IBV_SEND_SIGNALED;
      wr.wr.rdma = {b_.addr(), b_.rkey()};
      ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
    }
  }
};

TEST_F(CompletionTest, SizesAreChecked) {
  EXPECT_EQ(ibv_create_cq(device(), 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(device(), -1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(ibv_create_cq(device(), 1 << 30, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(ibv_create_cq(device(), 1, nullptr, nullptr, device()->num_comp_vectors), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_poll_cq(cq_.get(), 0, nullptr), 0);
  EXPECT_EQ(ibv_poll_cq(cq_.get(), -1, nullptr), 0);
  EXPECT_EQ(ibv_create_cq(device(), 1, nullptr, nullptr, -1), nullptr);
}

TEST_F(CompletionTest, ResizingKeepsWhatIsQueued) {
  make_pair();
  write(10);
  // Lets them arrive without taking them: polling the other queue drives the engine, too.
  expect_nothing(recv_cq_.get());
  EXPECT_EQ(ibv_resize_cq(cq_.get(), 5), EINVAL);
  ASSERT_EQ(ibv_resize_cq(cq_.get(), 500), 0);
  EXPECT_GE(cq_->cqe, 500);
  const std::vector<ibv_wc> all = poll(cq_.get(), 10);
  for (size_t i = 0; i < 10; i++) EXPECT_EQ(all[i].wr_id, i);
}

TEST_F(CompletionTest, UnknownAttributesAreRefused) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 16;
  attr.wc_flags = uint64_t{1} << 40;
  EXPECT_EQ(ibv_create_cq_ex(device(), &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attr.wc_flags = 0;
  attr.comp_mask = 1u << 20;
  EXPECT_EQ(ibv_create_cq_ex(device(), &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(CompletionTest, FieldsOneByOne) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 64;
  attr.wc_flags = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  ibv_cq_ex* extended = ibv_create_cq_ex(device(), &attr);
  ASSERT_NE(extended, nullptr);
  Owned<ibv_cq> owner(ibv_cq_ex_to_cq(extended));
  {
    const Owned<ibv_qp> sender = make_qp(pd_.get(), cq_.get(), cq_.get(), {});
    const Owned<ibv_qp> receiver = make_qp(pd_.get(), owner.get(), owner.get(), {});
    connect(sender.get(), receiver->qp_num);
    connect(receiver.get(), sender->qp_num);
    ibv_poll_cq_attr poll_attr{};
    EXPECT_EQ(ibv_start_poll(extended, &poll_attr), ENOENT);
    for (uint64_t i = 0; i < 3; i++) ASSERT_EQ(post_recv(receiver.get(), 40 + i, b_.sge(0, 64)), 0);
    for (uint32_t i = 0; i < 3; i++) {
      ibv_send_wr wr{};
      wr.opcode = IBV_WR_SEND_WITH_IMM;
      wr.imm_data = htonl(i);
      wr.send_flags = IBV_SEND_SIGNALED;
      ASSERT_EQ(post_send(sender.get(), wr, a_.sge(0, 10 + i)), 0);
    }
    poll(cq_.get(), 3);
    ASSERT_EQ(ibv_start_poll(extended, &poll_attr), 0);
    uint64_t last_time = 0, wall_ahead = 0;
    for (uint32_t i = 0; i < 3; i++) {
      EXPECT_EQ(extended->wr_id, 40 + i);
      EXPECT_EQ(extended->status, IBV_WC_SUCCESS);
      EXPECT_EQ(ibv_wc_read_opcode(extended), IBV_WC_RECV);
      EXPECT_EQ(ibv_wc_read_byte_len(extended), 10 + i);
      EXPECT_EQ(ibv_wc_read_imm_data(extended), htonl(i));
      EXPECT_EQ(ibv_wc_read_qp_num(extended), receiver->qp_num);
      EXPECT_EQ(ibv_wc_read_wc_flags(extended), unsigned{IBV_WC_WITH_IMM});
      EXPECT_EQ(ibv_wc_read_vendor_err(extended), 0u);
      EXPECT_EQ(ibv_wc_read_sl(extended), 0);
      const uint64_t time = ibv_wc_read_completion_ts(extended);
      EXPECT_GE(time, last_time);
      last_time = time;
      const uint64_t wall_ns = ibv_wc_read_completion_wallclock_ns(extended);
      if (i == 0) wall_ahead = wall_ns - time;
      EXPECT_EQ(wall_ns - time, wall_ahead);  // both clocks agree on the order
      const auto wall = static_cast<time_t>(wall_ns / 1000000000);
      EXPECT_LE(std::abs(wall - std::time(nullptr)), 5);
      EXPECT_EQ(ibv_next_poll(extended), i < 2 ? 0 : ENOENT);
    }
    ibv_end_poll(extended);
    ibv_values_ex now{};
    now.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    ASSERT_EQ(ibv_query_rt_values_ex(device(), &now), 0);
    EXPECT_GT(static_cast<uint64_t>(now.raw_clock.tv_nsec), last_time);  // the same clock as the time stamps
  }
}

/// Fields of datagrams, and those that an Ethernet device leaves zero.
TEST_F(CompletionTest, FieldsOfADatagram) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 16;
  attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  ibv_cq_ex* extended = ibv_create_cq_ex(device(), &attr);
  ASSERT_NE(extended, nullptr);
  const Owned<ibv_cq> owner(ibv_cq_ex_to_cq(extended));
  QpOptions options;
  options.type = IBV_QPT_UD;
  const Owned<ibv_qp> sender = make_qp(pd_.get(), cq_.get(), cq_.get(), options);
  const Owned<ibv_qp> receiver = make_qp(pd_.get(), owner.get(), owner.get(), options);
  connect(sender.get(), 0);
  connect(receiver.get(), 0);
  ibv_ah_attr address = own_address(1);
  const Owned<ibv_ah> ah(ibv_create_ah(pd_.get(), &address));
  ASSERT_EQ(post_recv(receiver.get(), 5, b_.sge(0, 128)), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.ud = {ah.get(), receiver->qp_num, 0x11111111};
  ASSERT_EQ(post_send(sender.get(), wr, a_.sge(0, 20)), 0);
  poll(cq_.get(), 1);
  ibv_poll_cq_attr poll_attr{};
  ASSERT_EQ(ibv_start_poll(extended, &poll_attr), 0);
  EXPECT_EQ(ibv_wc_read_src_qp(extended), sender->qp_num);
  EXPECT_EQ(ibv_wc_read_qp_num(extended), receiver->qp_num);
  EXPECT_EQ(ibv_wc_read_byte_len(extended), 60u);
  EXPECT_EQ(ibv_wc_read_wc_flags(extended), unsigned{IBV_WC_GRH});
  EXPECT_EQ(ibv_wc_read_slid(extended), 0u);
  EXPECT_EQ(ibv_wc_read_dlid_path_bits(extended), 0);
  EXPECT_EQ(ibv_wc_read_cvlan(extended), 0);
  EXPECT_EQ(ibv_wc_read_flow_tag(extended), 0u);
  ibv_wc_tm_info info{1, 2};
  ibv_wc_read_tm_info(extended, &info);
  EXPECT_EQ(info.tag, 0u);
  ibv_end_poll(extended);
}

/// A program that finds a completion at every poll still drives the engine when no other thread does.
TEST_F(CompletionTest, WhoAlwaysFindsOneDrivesToo) {
  constexpr uint32_t kMany = 100;
  for (const bool extended : {false, true}) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = kMany;
    ibv_cq_ex* const full = ibv_create_cq_ex(device(), &attr);
    ASSERT_NE(full, nullptr);
    const Owned<ibv_cq> owner(ibv_cq_ex_to_cq(full));
    const Owned<ibv_qp> ended = make_qp(pd_.get(), owner.get(), owner.get(), {.max_wr = kMany});
    for (uint32_t i = 0; i < kMany; i++) ASSERT_EQ(post_recv(ended.get(), i, b_.sge(0, 64)), 0);
    to_error(ended.get());
    make_pair();
    a_.fill(extended ? 7 : 9);
    std::fill_n(b_.data(), 64, 0);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma = {b_.addr(), b_.rkey()};
    ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 64)), 0);
    for (uint32_t i = 0; i < kMany; i++) {
      ibv_wc wc;
      ibv_poll_cq_attr one{};
      ASSERT_EQ(extended ? ibv_start_poll(full, &one) : ibv_poll_cq(owner.get(), 1, &wc) - 1, 0) << i;
      if (extended) ibv_end_poll(full);
    }
    EXPECT_TRUE(std::equal(a_.data(), a_.data() + 64, b_.data())) << extended;
  }
}

/// From start to end a poller is alone; with a promise of a single thread no lock is taken.
TEST_F(CompletionTest, PollersTakeTurns) {
  make_pair();
  for (const bool alone : {false, true}) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = 16;
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attr.flags = alone ? IBV_CREATE_CQ_ATTR_SINGLE_THREADED : IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    ibv_cq_ex* extended = ibv_create_cq_ex(device(), &attr);
    ASSERT_NE(extended, nullptr);
    const Owned<ibv_cq> owner(ibv_cq_ex_to_cq(extended));
    const Owned<ibv_qp> left = make_qp(pd_.get(), owner.get(), owner.get(), {});
    const Owned<ibv_qp> right = make_qp(pd_.get(), cq_.get(), cq_.get(), {});
    connect(left.get(), right->qp_num);
    connect(right.get(), left->qp_num);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {b_.addr(), b_.rkey()};
    for (int i = 0; i < 2; i++) ASSERT_EQ(post_send(left.get(), wr, a_.sge(0, 8)), 0);
    expect_nothing(cq_.get());  // time to complete
    ibv_poll_cq_attr poll_attr{};
    ASSERT_EQ(ibv_start_poll(extended, &poll_attr), 0);
    std::atomic<bool> entered{false};
    std::thread other([&] {
      ibv_poll_cq_attr mine{};
      EXPECT_EQ(ibv_start_poll(extended, &mine), 0);
      entered = true;
      ibv_end_poll(extended);
    });
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(alone ? 2000 : 50);
    while (!entered && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_EQ(entered, alone);
    ibv_end_poll(extended);
    other.join();
    // An empty queue holds no lock.
    EXPECT_EQ(ibv_start_poll(extended, &poll_attr), ENOENT);
    EXPECT_EQ(ibv_start_poll(extended, &poll_attr), ENOENT);
  }
}

TEST_F(CompletionTest, OverflowIsAnErrorNotACrash) {
  Owned<ibv_cq> small(ibv_create_cq(device(), 2, nullptr, nullptr, 0));
  {
    const Owned<ibv_qp> sender = make_qp(pd_.get(), small.get(), small.get(), {});
    const Owned<ibv_qp> receiver = make_qp(pd_.get(), cq_.get(), cq_.get(), {});
    connect(sender.get(), receiver->qp_num);
    connect(receiver.get(), sender->qp_num);
    for (int i = 0; i < 5; i++) {
      ibv_send_wr wr{};
      wr.opcode = IBV_WR_RDMA_WRITE;
      wr.send_flags = IBV_SEND_SIGNALED;
      wr.wr.rdma = {b_.addr(), b_.rkey()};
      ASSERT_EQ(post_send(sender.get(), wr, a_.sge(0, 8)), 0);
    }
    expect_nothing(cq_.get());
  }
  ibv_async_event event;
  bool seen = false;
  while (!seen) {
    ASSERT_EQ(ibv_get_async_event(device(), &event), 0);
    seen = event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == small.get();
    ibv_ack_async_event(&event);
  }
}

}  // namespace
