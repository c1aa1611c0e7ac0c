// Objects of librdmacm that end in another order than they were made in, or while they are in use.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

namespace {

using std::chrono::milliseconds;

class RdmaCmOrderTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(channel_, nullptr);
    ASSERT_EQ(rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP), 0);
    ASSERT_EQ(rdma_bind_addr(listener_, loopback(0)), 0);
    ASSERT_EQ(rdma_listen(listener_, 8), 0);
    port_ = ntohs(rdma_get_src_port(listener_));
  }
  void TearDown() override {
    if (listener_ != nullptr) {
      EXPECT_EQ(rdma_destroy_id(listener_), 0);
    }
    rdma_destroy_event_channel(channel_);
  }

  sockaddr* loopback(uint16_t port) {
    address_ = {};
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address_.sin_port = htons(port);
    return reinterpret_cast<sockaddr*>(&address_);
  }
  /// The next event, not acknowledged.
  rdma_cm_event* take() {
    pollfd one{channel_->fd, POLLIN, 0};
    rdma_cm_event* event = nullptr;
    if (poll(&one, 1, 10'000) != 1 || rdma_get_cm_event(channel_, &event) != 0) ADD_FAILURE() << "no event";
    return event;
  }
  /// The next event, which must be this one, is acknowledged. Returns the new id of a request.
  rdma_cm_id* expect(rdma_cm_event_type type) {
    rdma_cm_event* const event = take();
    if (event == nullptr) return nullptr;
    EXPECT_STREQ(rdma_event_str(event->event), rdma_event_str(type));
    rdma_cm_id* const id = event->id;
    rdma_ack_cm_event(event);
    return id;
  }
  rdma_cm_id* resolved() {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
    EXPECT_EQ(rdma_resolve_addr(id, nullptr, loopback(port_), 2000), 0);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT_EQ(rdma_resolve_route(id, 2000), 0);
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    return id;
  }
  static void give_queue_pair(rdma_cm_id* id) {
    ibv_qp_init_attr attr{};
    attr.cap = {4, 4, 1, 1, 0};
    attr.qp_type = IBV_QPT_RC;
    ASSERT_EQ(rdma_create_qp(id, nullptr, &attr), 0);
  }
  static int connect(rdma_cm_id* id) {
    rdma_conn_param param{};
    param.responder_resources = param.initiator_depth = 1;
    param.retry_count = 7;
    return rdma_connect(id, &param);
  }
  static int accept(rdma_cm_id* id) {
    rdma_conn_param param{};
    param.responder_resources = param.initiator_depth = 1;
    return rdma_accept(id, &param);
  }

  rdma_event_channel* channel_ = rdma_create_event_channel();
  rdma_cm_id* listener_ = nullptr;
  sockaddr_in address_{};
  uint16_t port_ = 0;
};

TEST_F(RdmaCmOrderTest, AnIdWaitsForTheAcknowledgementOfItsEvents) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, loopback(port_), 2000), 0);
  rdma_cm_event* const event = take();
  ASSERT_NE(event, nullptr);
  std::atomic<bool> gone = false;
  std::thread ends([&] {
    EXPECT_EQ(rdma_destroy_id(id), 0);
    gone = true;
  });
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_FALSE(gone);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  ends.join();
}

TEST_F(RdmaCmOrderTest, AnIdEndsWithEventsThatNobodyTook) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, loopback(port_), 2000), 0);
  EXPECT_EQ(rdma_destroy_id(id), 0);
  pollfd one{channel_->fd, POLLIN, 0};
  EXPECT_EQ(poll(&one, 1, 0), 0);
}

/// The waiting request is refused, the one that was taken goes on.
TEST_F(RdmaCmOrderTest, AListenerEndsBeforeItsRequests) {
  rdma_cm_id* const first = resolved();
  give_queue_pair(first);
  ASSERT_EQ(connect(first), 0);
  rdma_cm_id* const child = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(child, nullptr);
  rdma_cm_id* const second = resolved();
  give_queue_pair(second);
  ASSERT_EQ(connect(second), 0);
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(rdma_destroy_id(listener_), 0);
  listener_ = nullptr;
  EXPECT_EQ(expect(RDMA_CM_EVENT_REJECTED), second);
  give_queue_pair(child);
  ASSERT_EQ(accept(child), 0);
  expect(RDMA_CM_EVENT_ESTABLISHED);
  expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(rdma_disconnect(child), 0);
  EXPECT_EQ(expect(RDMA_CM_EVENT_DISCONNECTED), first);
  for (rdma_cm_id* id : {first, second, child}) {
    rdma_destroy_qp(id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
}

TEST_F(RdmaCmOrderTest, WhoAsksIsGoneBeforeItIsAccepted) {
  rdma_cm_id* const id = resolved();
  give_queue_pair(id);
  ASSERT_EQ(connect(id), 0);
  rdma_cm_id* const child = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(child, nullptr);
  rdma_destroy_qp(id);
  EXPECT_EQ(rdma_destroy_id(id), 0);
  std::this_thread::sleep_for(milliseconds(20));
  ibv_qp_init_attr attr{};
  attr.cap = {4, 4, 1, 1, 0};
  attr.qp_type = IBV_QPT_RC;
  EXPECT_EQ(rdma_create_qp(child, nullptr, &attr), -1);  // there are no attributes to set it to
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(accept(child), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_destroy_id(child), 0);
}

/// The queue pair belongs to the program, and outlives its id; the peer is told of the end.
TEST_F(RdmaCmOrderTest, AnIdEndsBeforeItsQueuePair) {
  rdma_cm_id* const id = resolved();
  give_queue_pair(id);
  ASSERT_EQ(connect(id), 0);
  rdma_cm_id* const child = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(child, nullptr);
  give_queue_pair(child);
  ASSERT_EQ(accept(child), 0);
  expect(RDMA_CM_EVENT_ESTABLISHED);
  expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(ibv_destroy_cq(id->send_cq), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(id->pd), EBUSY);
  ibv_qp* const qp = id->qp;
  ibv_cq* const cqs[] = {id->send_cq, id->recv_cq};
  ibv_comp_channel* const channels[] = {id->send_cq_channel, id->recv_cq_channel};
  EXPECT_EQ(rdma_destroy_id(id), 0);
  EXPECT_EQ(expect(RDMA_CM_EVENT_DISCONNECTED), child);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  for (ibv_cq* cq : cqs) EXPECT_EQ(ibv_destroy_cq(cq), 0);
  for (ibv_comp_channel* channel : channels) EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  rdma_destroy_qp(child);
  EXPECT_EQ(rdma_destroy_id(child), 0);
}

/// A later descriptor with the same number has nothing to do with the channel.
TEST_F(RdmaCmOrderTest, AChannelEndsWhileItsListenerIsKnownToOthers) {
  rdma_event_channel* const other = rdma_create_event_channel();
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(rdma_migrate_id(listener_, other), 0);
  rdma_destroy_event_channel(channel_);
  channel_ = other;
  rdma_cm_id* const id = resolved();
  give_queue_pair(id);
  ASSERT_EQ(connect(id), 0);
  rdma_cm_id* const child = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(child, nullptr);
  EXPECT_EQ(rdma_reject(child, nullptr, 0), 0);
  EXPECT_EQ(expect(RDMA_CM_EVENT_REJECTED), id);
  rdma_destroy_qp(id);
  for (rdma_cm_id* one : {id, child}) EXPECT_EQ(rdma_destroy_id(one), 0);
}

}  // namespace
