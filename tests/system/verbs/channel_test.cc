// Completion channels.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

constexpr int kPatience_ms = 10000;

class ChannelTest : public PairTest {
 protected:
  void SetUp() override {
    channel_.reset(ibv_create_comp_channel(device()));
    ASSERT_NE(channel_, nullptr);
    events_cq_.reset(ibv_create_cq(device(), 64, this, channel_.get(), 0));
    ASSERT_NE(events_cq_, nullptr);
    receiver_ = make_qp(pd_.get(), events_cq_.get(), events_cq_.get(), {});
    sender_ = make_qp(pd_.get(), cq_.get(), cq_.get(), {});
    connect(receiver_.get(), sender_->qp_num);
    connect(sender_.get(), receiver_->qp_num);
    for (uint64_t i = 0; i < 8; i++) ASSERT_EQ(post_recv(receiver_.get(), i, b_.sge(0, 64)), 0);
  }
  void send(unsigned flags = 0) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = flags;
    ASSERT_EQ(post_send(sender_.get(), wr, a_.sge(0, 8)), 0);
  }
  /// SENDs that this device has received. A call that does not drive the device, so that its thread has to.
  static long arrived() {
    long sends = -1;
    std::ifstream("/sys/class/infiniband/uroce0/ports/1/hw_counters/rx_sends") >> sends;
    return sends;
  }
  /// The next event must be of `expected`.
  static void wait_for_arrivals(long sends) {
    for (int ms = 0; arrived() < sends && ms < kPatience_ms; ms++) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(arrived(), sends);
  }
  bool readable(int timeout_ms) {
    pollfd p{channel_->fd, POLLIN, 0};
    return ::poll(&p, 1, timeout_ms) == 1;
  }
  void take_event() {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel_.get(), &cq, &context), 0);
    EXPECT_EQ(cq, events_cq_.get());
    EXPECT_EQ(context, this);
  }
  /// The next event is of `expected`. As programs with one event at a time do: takes, acknowledges, arms again.
  void take_and_arm(ibv_cq* expected) {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel_.get(), &cq, &context), 0);
    EXPECT_EQ(cq, expected);
    ibv_ack_cq_events(cq, 1);
    ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  }

  Owned<ibv_comp_channel> channel_;
  Owned<ibv_cq> events_cq_;
  Owned<ibv_qp> receiver_;
  Owned<ibv_qp> sender_;
};

TEST_F(ChannelTest, OneEventForOneArming) {
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
  send();
  send();
  ASSERT_TRUE(readable(kPatience_ms));  // nobody polls: the background thread receives
  take_event();
  poll(events_cq_.get(), 2);
  EXPECT_FALSE(readable(20));
  send();
  EXPECT_FALSE(readable(20));  // not armed again
  ibv_ack_cq_events(events_cq_.get(), 1);
}

// UCX polls until the queue is empty, arms it and sleeps; a completion that came in between must wake it.
TEST_F(ChannelTest, WhatCameBeforeTheArmingWakes) {
  const long before = arrived();
  send();
  wait_for_arrivals(before + 1);
  EXPECT_FALSE(readable(0));
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
  ASSERT_TRUE(readable(0));
  take_event();
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
  EXPECT_FALSE(readable(20));  // the program was told already
  poll(events_cq_.get(), 1);
  ibv_ack_cq_events(events_cq_.get(), 1);
}

// ibv_rc_pingpong -t -e polls two completions at most after each event, and takes an event without one for an error.
TEST_F(ChannelTest, NoEventFindsAnEmptyQueue) {
  const long before = arrived();
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
  send();
  ASSERT_TRUE(readable(kPatience_ms));
  send();
  wait_for_arrivals(before + 2);
  take_event();  // raised by the first completion, while the second is there, too
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
  poll(events_cq_.get(), 2);
  EXPECT_FALSE(readable(20));
  ibv_ack_cq_events(events_cq_.get(), 1);
}

TEST_F(ChannelTest, SleepingProgramIsWoken) {
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    send();
  });
  take_event();
  later.join();
  poll(events_cq_.get(), 1);
  ibv_ack_cq_events(events_cq_.get(), 1);
}

TEST_F(ChannelTest, WhoSleepsCanBeCancelled) {
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
  bool came_back = false;
  std::thread sleeping([&] {
    take_event();
    came_back = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  pthread_cancel(sleeping.native_handle());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  send();
  take_event();  // left for the next thread that asks
  sleeping.join();
  EXPECT_FALSE(came_back);
  ibv_ack_cq_events(events_cq_.get(), 1);
}

TEST_F(ChannelTest, OnlySolicitedOnes) {
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 1), 0);
  send();
  EXPECT_FALSE(readable(30));
  send(IBV_SEND_SOLICITED);
  ASSERT_TRUE(readable(kPatience_ms));
  take_event();
  ibv_ack_cq_events(events_cq_.get(), 1);
  poll(events_cq_.get(), 2);
}

// perftest waits for an event after it has polled the completion that raised it.
TEST_F(ChannelTest, EventStaysWhenAPollOvertakesIt) {
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
  send();
  ASSERT_TRUE(readable(kPatience_ms));
  poll(events_cq_.get(), 1);
  expect_nothing(events_cq_.get());
  EXPECT_TRUE(readable(0));
  take_event();
  ibv_ack_cq_events(events_cq_.get(), 1);
}

// What ib_send_lat -e meets when the acknowledgement of its send is lost and the peer's answer comes first: it takes
// the event of its receives for that of its send, goes on without the send's completion, and has no slot for the next
// one.
TEST_F(ChannelTest, TwoQueuesHaveTheirEventsInOrder) {
  Owned<ibv_cq> sends{ibv_create_cq(device(), 16, nullptr, channel_.get(), 0)};
  Owned<ibv_cq> receives{ibv_create_cq(device(), 16, nullptr, channel_.get(), 0)};
  Owned<ibv_qp> program = make_qp(pd_.get(), sends.get(), receives.get(), {.max_wr = 1});
  Owned<ibv_qp> peer = make_qp(pd_.get(), cq_.get(), cq_.get(), {});
  connect(program.get(), peer->qp_num);
  connect(peer.get(), program->qp_num);
  for (uint64_t i = 0; i < 2; i++) ASSERT_EQ(post_recv(peer.get(), i, b_.sge(0, 64)), 0);
  ASSERT_EQ(post_recv(program.get(), 0, b_.sge(0, 64)), 0);
  for (ibv_cq* cq : {sends.get(), receives.get()}) ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;

  ASSERT_EQ(post_send(peer.get(), wr, a_.sge(0, 8)), 0);
  ASSERT_TRUE(readable(kPatience_ms));  // the answer is there
  ASSERT_EQ(post_send(program.get(), wr, a_.sge(0, 8)), 0);
  poll(cq_.get(), 2);         // the peer's
  expect_nothing(cq_.get());  // and the program's send has been acknowledged meanwhile
  take_and_arm(receives.get());
  take_and_arm(sends.get());
  poll(receives.get(), 1);
  EXPECT_EQ(post_send(program.get(), wr, a_.sge(0, 8)), ENOMEM);  // completed, but not polled
  poll(sends.get(), 1);
  EXPECT_EQ(post_send(program.get(), wr, a_.sge(0, 8)), 0);
  take_and_arm(sends.get());
  poll(sends.get(), 1);
  EXPECT_FALSE(readable(20));
}

/// Queues with many events must not starve others: they take turns.
TEST_F(ChannelTest, QueuesTakeTurns) {
  const Owned<ibv_cq> other(ibv_create_cq(device(), 16, nullptr, channel_.get(), 0));
  const Owned<ibv_qp> program = make_qp(pd_.get(), other.get(), other.get(), {});
  const Owned<ibv_qp> peer = make_qp(pd_.get(), cq_.get(), cq_.get(), {});
  connect(program.get(), peer->qp_num);
  connect(peer.get(), program->qp_num);
  ASSERT_EQ(post_recv(program.get(), 0, b_.sge(0, 64)), 0);
  const long before = arrived();
  for (long i = 1; i <= 3; i++) {
    ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
    send();
    wait_for_arrivals(before + i);
  }
  ASSERT_EQ(ibv_req_notify_cq(other.get(), 0), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  ASSERT_EQ(post_send(peer.get(), wr, a_.sge(0, 8)), 0);
  wait_for_arrivals(before + 4);
  for (ibv_cq* const expected : {events_cq_.get(), other.get(), events_cq_.get(), events_cq_.get()}) {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_TRUE(readable(0));
    ASSERT_EQ(ibv_get_cq_event(channel_.get(), &cq, &context), 0);
    EXPECT_EQ(cq, expected);
    ibv_ack_cq_events(cq, 1);
  }
  EXPECT_FALSE(readable(0));
}

TEST_F(ChannelTest, NonBlockingDescriptorIsHonoured) {
  const int flags = fcntl(channel_->fd, F_GETFL);
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel_.get(), &cq, &context), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(ChannelTest, ChannelInUseIsBusy) { EXPECT_EQ(ibv_destroy_comp_channel(channel_.get()), EBUSY); }

TEST_F(ChannelTest, EventsNobodyTookGoWithTheirQueue) {
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
  send();
  ASSERT_TRUE(readable(kPatience_ms));
  receiver_.reset();
  events_cq_.reset();
  EXPECT_FALSE(readable(0));
}

/// Whatever number of events a queue had: those of others are there afterwards, and no more.
TEST_F(ChannelTest, AllEventsNobodyTookGoWithTheirQueue) {
  for (long events = 2; events <= 3; events++) {
    if (receiver_ == nullptr) SetUp();
    const Owned<ibv_cq> other(ibv_create_cq(device(), 16, nullptr, channel_.get(), 0));
    const Owned<ibv_qp> program = make_qp(pd_.get(), other.get(), other.get(), {});
    const Owned<ibv_qp> peer = make_qp(pd_.get(), cq_.get(), cq_.get(), {});
    connect(program.get(), peer->qp_num);
    connect(peer.get(), program->qp_num);
    ASSERT_EQ(post_recv(program.get(), 0, b_.sge(0, 64)), 0);
    const long before = arrived();
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    for (long i = 0; i < events; i++) {
      ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
      send();
      wait_for_arrivals(before + i + 1);
    }
    ASSERT_EQ(ibv_req_notify_cq(other.get(), 0), 0);
    ASSERT_EQ(post_send(peer.get(), wr, a_.sge(0, 8)), 0);
    wait_for_arrivals(before + events + 1);
    receiver_.reset();
    events_cq_.reset();
    ASSERT_TRUE(readable(0)) << events;
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel_.get(), &cq, &context), 0);
    EXPECT_EQ(cq, other.get());
    ibv_ack_cq_events(cq, 1);
    EXPECT_FALSE(readable(0)) << events;
  }
}

TEST_F(ChannelTest, DestroyingAQueueWaitsForAcknowledgements) {
  ASSERT_EQ(ibv_req_notify_cq(events_cq_.get(), 0), 0);
  send();
  take_event();
  receiver_.reset();
  std::atomic<bool> acknowledged{false};
  std::thread acknowledger([&, cq = events_cq_.get()] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    acknowledged = true;
    ibv_ack_cq_events(cq, 1);
  });
  events_cq_.reset();
  EXPECT_TRUE(acknowledged);
  acknowledger.join();
}

}  // namespace
