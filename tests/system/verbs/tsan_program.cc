// A queue pair that writes to itself. It is built with the thread sanitizer, and the shim is not. With the argument
// `race` it has a race of its own, too.
#include <infiniband/verbs.h>

#include <cstdint>
#include <cstdio>
#include <string_view>
#include <thread>

namespace {

uint8_t memory[8192];
int shared = 0;

bool connect_to_itself(ibv_context* context, ibv_qp* qp) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS) != 0) return false;
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = qp->qp_num;
  a.max_dest_rd_atomic = 1;
  a.ah_attr.is_global = 1;
  a.ah_attr.port_num = 1;
  a.ah_attr.grh.sgid_index = 1;
  a.ah_attr.grh.hop_limit = 1;
  if (ibv_query_gid(context, 1, 1, &a.ah_attr.grh.dgid) != 0) return false;
  constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (ibv_modify_qp(qp, &a, kToRtr) != 0) return false;
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 14;
  a.retry_cnt = a.rnr_retry = 7;
  a.max_rd_atomic = 1;
  constexpr int kToRts =
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  return ibv_modify_qp(qp, &a, kToRts) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  ibv_device** const list = ibv_get_device_list(nullptr);
  ibv_context* const context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  if (context == nullptr) return 1;
  ibv_pd* const pd = ibv_alloc_pd(context);
  ibv_cq* const cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  ibv_mr* const mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ibv_qp_init_attr sizes{};
  sizes.send_cq = sizes.recv_cq = cq;
  sizes.qp_type = IBV_QPT_RC;
  sizes.cap = {4, 4, 1, 1, 0};
  ibv_qp* const qp = ibv_create_qp(pd, &sizes);
  if (qp == nullptr || mr == nullptr || !connect_to_itself(context, qp)) return 1;
  int failed = 0;
  for (int i = 0; i < 100; i++) {
    ibv_sge sge{reinterpret_cast<uintptr_t>(memory), 64, mr->lkey};
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {reinterpret_cast<uintptr_t>(memory) + 4096, mr->rkey};
    if (ibv_post_send(qp, &wr, &bad) != 0) return 1;
    ibv_wc done{};
    while (ibv_poll_cq(cq, 1, &done) == 0) {
    }
    failed |= done.status;
  }
  if (argc > 1 && std::string_view(argv[1]) == "race") {
    std::thread other([] { shared++; });
    shared++;
    other.join();
  }
  failed |= ibv_destroy_qp(qp) | ibv_dereg_mr(mr) | ibv_destroy_cq(cq) | ibv_dealloc_pd(pd) | ibv_close_device(context);
  std::printf("done: %d\n", failed);
  return failed != 0 ? 1 : 0;
}
