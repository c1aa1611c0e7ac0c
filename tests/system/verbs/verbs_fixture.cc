#include "verbs_fixture.h"

#include <poll.h>

#include <chrono>
#include <cstring>

namespace verbs_test {

using Clock = std::chrono::steady_clock;

ibv_context* device() {
  static ibv_context* const context = [] {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    EXPECT_EQ(count, 1);
    EXPECT_STREQ(ibv_get_device_name(list[0]), "uroce0");
    ibv_context* opened = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    return opened;
  }();
  if (context == nullptr) {
    ADD_FAILURE() << "the device does not open";
    std::exit(1);
  }
  return context;
}

Buffer::Buffer(ibv_pd* pd, size_t bytes, int access)
    : bytes_(bytes), mr_(ibv_reg_mr(pd, bytes_.data(), bytes, access)) {
  EXPECT_NE(mr_, nullptr);
}

void Buffer::fill(uint8_t seed) {
  for (size_t i = 0; i < bytes_.size(); i++) bytes_[i] = static_cast<uint8_t>(seed + i * 7 + i / 256);
}

Owned<ibv_qp> make_qp(ibv_pd* pd, ibv_cq* send_cq, ibv_cq* recv_cq, const QpOptions& options) {
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = send_cq;
  attr.recv_cq = recv_cq;
  attr.srq = options.srq;
  attr.cap = {options.max_wr, options.max_wr, options.max_sge, options.max_sge, options.max_inline};
  attr.qp_type = options.type;
  attr.sq_sig_all = options.sig_all ? 1 : 0;
  attr.pd = pd;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  if (options.send_ops != 0) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = options.send_ops;
  }
  Owned<ibv_qp> qp(ibv_create_qp_ex(device(), &attr));
  EXPECT_NE(qp, nullptr);
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = 1;
  init.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  init.qkey = 0x11111111;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  mask |= options.type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &init, mask), 0);
  return qp;
}

ibv_ah_attr own_address(int gid_index) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  EXPECT_EQ(ibv_query_gid(device(), 1, gid_index, &attr.grh.dgid), 0);
  attr.grh.sgid_index = static_cast<uint8_t>(gid_index);
  attr.grh.hop_limit = 64;
  attr.port_num = 1;
  return attr;
}

/// Every queue pair has another first PSN, some of them just before the numbers wrap.
static uint32_t first_psn(uint32_t qpn) { return qpn % 2 != 0 ? 0xfffffe - qpn % 64 : (qpn * 2654435761u) & 0xffffff; }

void connect(ibv_qp* qp, uint32_t peer_qpn) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer_qpn;
  attr.rq_psn = first_psn(peer_qpn);
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 1;
  attr.ah_attr = own_address(1);
  int mask = IBV_QP_STATE;
  if (qp->qp_type != IBV_QPT_UD) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  const bool reliable = qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND || qp->qp_type == IBV_QPT_XRC_RECV;
  if (reliable) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, mask), 0);
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = first_psn(qp->qp_num);
  attr.timeout = 10;
  attr.retry_cnt = 3;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 4;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (reliable) {
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  ASSERT_EQ(ibv_modify_qp(qp, &attr, mask), 0);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
}

void to_error(ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

std::vector<ibv_wc> poll(ibv_cq* cq, size_t count) {
  std::vector<ibv_wc> all;
  const auto end = Clock::now() + std::chrono::seconds(5);
  while (all.size() < count && Clock::now() < end) {
    ibv_wc wc[8];
    const int n = ibv_poll_cq(cq, 8, wc);
    EXPECT_GE(n, 0);
    for (int i = 0; i < n; i++) all.push_back(wc[i]);
  }
  EXPECT_EQ(all.size(), count);
  all.resize(count);  // so that a test can still index them
  return all;
}

void expect_nothing(ibv_cq* cq) {
  const auto end = Clock::now() + std::chrono::milliseconds(20);
  while (Clock::now() < end) {
    ibv_wc wc;
    ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 0) << ibv_wc_status_str(wc.status);
  }
}

void PairTest::make_pair(const QpOptions& options) {
  left_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), options);
  right_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), options);
  connect(left_.get(), right_->qp_num);
  connect(right_.get(), left_->qp_num);
}

ibv_async_event PairTest::wait_for(ibv_event_type type, const void* object) {
  for (;;) {
    pollfd entry{device()->async_fd, POLLIN, 0};
    if (::poll(&entry, 1, 2000) != 1) {
      ADD_FAILURE() << "no event: " << ibv_event_type_str(type);
      return {};
    }
    ibv_async_event event{};
    EXPECT_EQ(ibv_get_async_event(device(), &event), 0);
    if (event.event_type == type && event.element.qp == object) return event;
    ibv_ack_async_event(&event);
  }
}

int PairTest::post_recv(ibv_qp* qp, uint64_t wr_id, const ibv_sge& sge) {
  ibv_sge element = sge;
  ibv_recv_wr wr{wr_id, nullptr, &element, 1};
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp, &wr, &bad);
}

int PairTest::post_send(ibv_qp* qp, ibv_send_wr wr, const ibv_sge& sge) {
  ibv_sge element = sge;
  wr.sg_list = &element;
  wr.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp, &wr, &bad);
}

}  // namespace verbs_test
