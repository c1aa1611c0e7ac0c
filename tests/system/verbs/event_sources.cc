#include "event_sources.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cerrno>

namespace verbs_test {

void CompletionEvents::raise() {
  for (ibv_wc wc; ibv_poll_cq(cq_.get(), 1, &wc) != 0;) {
  }
  EXPECT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_recv(qp_.get(), &wr, &bad), 0);
}

int CompletionEvents::take() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel_.get(), &cq, &context) != 0) return errno;
  EXPECT_EQ(cq, cq_.get());
  ibv_ack_cq_events(cq, 1);
  return 0;
}

AsyncEvents::AsyncEvents() {
  ibv_device** list = ibv_get_device_list(nullptr);
  context_ = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  pd_.reset(ibv_alloc_pd(context_));
  cq_.reset(ibv_create_cq(context_, 16, nullptr, nullptr, 0));
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq_.get();
  attr.cap = {1, 1, 1, 1, 0};
  attr.qp_type = IBV_QPT_RC;
  qp_.reset(ibv_create_qp(pd_.get(), &attr));
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = 1;
  const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  EXPECT_EQ(ibv_modify_qp(qp_.get(), &init, mask), 0);
  connect(qp_.get(), qp_->qp_num);
}

AsyncEvents::~AsyncEvents() {
  qp_.reset();
  cq_.reset();
  pd_.reset();
  EXPECT_EQ(ibv_close_device(context_), 0);
}

void AsyncEvents::raise() {
  ibv_qp_attr attr{};
  if (qp_->state == IBV_QPS_SQD) {
    attr.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE), 0);
  }
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  EXPECT_EQ(ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
}

int AsyncEvents::take() {
  ibv_async_event event{};
  if (ibv_get_async_event(context_, &event) != 0) return errno;
  EXPECT_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
  ibv_ack_async_event(&event);
  return 0;
}

ConnectionEvents::~ConnectionEvents() {
  for (rdma_cm_id* id : ids_) EXPECT_EQ(rdma_destroy_id(id), 0);
  rdma_destroy_event_channel(channel_);
}

void ConnectionEvents::raise() {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  ids_.push_back(id);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(9);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 5000), 0);
}

int ConnectionEvents::take() {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel_, &event) != 0) return errno;
  EXPECT_EQ(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  return 0;
}

}  // namespace verbs_test
