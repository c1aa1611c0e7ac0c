#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "newcomer.h"
#include "newcomer_connections.h"

namespace verbs_test {
namespace {

/// The errno of a call that makes an object.
template <typename T>
int error_of(const T* made) {
  return made != nullptr ? 0 : errno;
}

struct Pair {
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_qp* qp = nullptr;
  uint8_t buffer[64] = {};

  int make(ibv_context* context) {
    ibv_qp_init_attr init{};
    if (const int error = error_of(pd = ibv_alloc_pd(context))) return error;
    if (const int error = error_of(cq = ibv_create_cq(context, 16, nullptr, nullptr, 0))) return error;
    if (const int error = error_of(mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE))) return error;
    init.send_cq = init.recv_cq = cq;
    init.cap = {4, 4, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    return error_of(qp = ibv_create_qp(pd, &init));
  }
  ~Pair() {
    if (qp != nullptr) ibv_destroy_qp(qp);
    if (mr != nullptr) ibv_dereg_mr(mr);
    if (cq != nullptr) ibv_destroy_cq(cq);
    if (pd != nullptr) ibv_dealloc_pd(pd);
  }

  int send() const {
    ibv_sge piece{reinterpret_cast<uint64_t>(buffer), sizeof buffer, mr->lkey};
    ibv_send_wr request{};
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad;
    if (const int error = ibv_post_send(qp, &request, &bad)) return error;
    constexpr int kLooks = 15000;
    for (int i = 0; i < kLooks; i++) {
      ibv_wc completion{};
      const int count = ibv_poll_cq(cq, 1, &completion);
      if (count < 0) return EIO;
      if (count == 1) return completion.status == IBV_WC_SUCCESS ? 0 : kUnreached;
      usleep(1000);
    }
    return ETIME;  // neither: a lost message
  }
};

/// A channel and an id, with all that belongs to them.
struct Line {
  rdma_event_channel* channel = nullptr;
  rdma_cm_id* id = nullptr;
  rdma_cm_id* child = nullptr;

  int make() {
    if (const int error = error_of(channel = rdma_create_event_channel())) return error;
    // librdmacm drops a request that it lacks the means for, and waits for the next event.
    if (fcntl(channel->fd, F_SETFL, O_NONBLOCK) != 0) return errno;
    return rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0 ? 0 : errno;
  }
  ~Line() {
    for (rdma_cm_id* one : {child, id}) {
      if (one != nullptr && one->qp != nullptr) rdma_destroy_qp(one);
      if (one != nullptr) rdma_destroy_id(one);
    }
    if (channel != nullptr) rdma_destroy_event_channel(channel);
  }
};

}  // namespace

ibv_gid own_gid(ibv_context* context) {
  ibv_gid gid{};
  ibv_query_gid(context, 1, 1, &gid);
  return gid;
}

int bring_to_rts(ibv_qp* qp, const Peer::End& to) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  if (const int error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
    return error;
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = to.qpn;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.dgid = to.gid;
  attr.ah_attr.grh.sgid_index = 1;
  attr.ah_attr.grh.hop_limit = 1;
  attr.ah_attr.port_num = 1;
  attr.timeout = 12;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  if (const int error = ibv_modify_qp(qp, &attr,
                                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
    return error;
  attr.qp_state = IBV_QPS_RTS;
  return ibv_modify_qp(
      qp, &attr,
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int pair_up(ibv_context* context, const Peer& peer, const std::function<void()>& /*patience*/) {
  const auto pair = std::make_unique<Pair>();
  if (const int error = pair->make(context)) return error;
  const Peer::End to = peer.connect({pair->qp->qp_num, own_gid(context)});
  if (const int error = bring_to_rts(pair->qp, to)) return error;
  return pair->send();
}

int connect_by_address(ibv_context* context, const Peer& /*peer*/, const std::function<void()>& patience) {
  Line line;
  if (const int error = line.make()) return error;
  if (const int error = connect_to(context, line.channel, line.id, Peer::kPort, patience)) return error;
  if (rdma_disconnect(line.id) != 0) return errno;
  return await_event(line.channel, RDMA_CM_EVENT_DISCONNECTED, patience);
}

int listen_for_peer(ibv_context* /*context*/, const Peer& peer, const std::function<void()>& patience) {
  Line line;
  if (const int error = line.make()) return error;
  if (const int error = bind_to(line.id, Peer::kOwnPort)) return error;
  if (rdma_listen(line.id, 4) != 0) return errno;
  peer.call_back();
  if (const int error = await_event(line.channel, RDMA_CM_EVENT_CONNECT_REQUEST, patience, &line.child)) return error;
  if (const int error = give_queue_pair(line.child)) return error;
  rdma_conn_param param{};
  param.rnr_retry_count = 7;
  if (rdma_accept(line.child, &param) != 0) return errno;
  if (const int error = await_event(line.channel, RDMA_CM_EVENT_ESTABLISHED, patience)) return error;
  return await_event(line.channel, RDMA_CM_EVENT_DISCONNECTED, patience);
}

int take_many_numbers(ibv_context* context, const Peer& /*peer*/, const std::function<void()>& /*patience*/) {
  constexpr int kMany = 300;
  Pair first;
  if (const int error = first.make(context)) return error;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = first.cq;
  init.cap = {1, 1, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  std::vector<ibv_qp*> all;
  int error = 0;
  while (error == 0 && all.size() < kMany) {
    ibv_qp* const qp = ibv_create_qp(first.pd, &init);
    error = error_of(qp);
    if (qp != nullptr) all.push_back(qp);
  }
  for (ibv_qp* qp : all) ibv_destroy_qp(qp);
  return error;
}

}  // namespace verbs_test
