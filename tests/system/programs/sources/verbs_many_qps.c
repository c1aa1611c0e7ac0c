/* Many queue pairs of one program, of which those with the first and the last number talk to each other.
 *
 *   verbs_many_qps COUNT
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void set(struct ibv_qp *qp, struct ibv_qp_attr *attr, enum ibv_qp_state state, int mask) {
  attr->qp_state = state;
  if (ibv_modify_qp(qp, attr, IBV_QP_STATE | mask)) fail("ibv_modify_qp");
}

static void connect_to(struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid) {
  struct ibv_qp_attr attr = {.port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  set(qp, &attr, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .sgid_index = 1, .hop_limit = 1}};
  set(qp, &attr, IBV_QPS_RTR,
      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 1;
  set(qp, &attr, IBV_QPS_RTS,
      IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void write_and_look(struct ibv_qp *qp, struct ibv_cq *cq, const struct ibv_mr *mr, uint64_t *memory) {
  memory[0] = 0x0123456789abcdef;
  memory[1] = 0;
  struct ibv_sge sge = {(uintptr_t)&memory[0], 8, mr->lkey};
  struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
                                 .wr.rdma = {(uintptr_t)&memory[1], mr->rkey}};
  if (ibv_post_send(qp, &wr, &bad)) fail("ibv_post_send");
  struct ibv_wc wc;
  int count;
  while ((count = ibv_poll_cq(cq, 1, &wc)) == 0) continue;
  if (count != 1 || wc.status != IBV_WC_SUCCESS || memory[1] != memory[0]) {
    fprintf(stderr, "a write failed: %s\n", ibv_wc_status_str(wc.status));
    exit(1);
  }
}

int main(int argc, char **argv) {
  const int count = argc == 2 ? atoi(argv[1]) : 0;
  int devices = 0;
  struct ibv_device **list = ibv_get_device_list(&devices);
  if (count < 2 || !list || devices == 0) return 2;
  struct ibv_context *context = ibv_open_device(list[0]);
  struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
  struct ibv_cq *cq = context ? ibv_create_cq(context, 16, NULL, NULL, 0) : NULL;
  static uint64_t memory[2];
  struct ibv_mr *mr = pd ? ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) : NULL;
  union ibv_gid gid;
  if (!cq || !mr || ibv_query_gid(context, 1, 1, &gid)) fail("open");
  struct ibv_qp **qps = calloc((size_t)count, sizeof *qps);
  struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                  .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
  for (int i = 0; i < count; i++) {
    if (!(qps[i] = ibv_create_qp(pd, &init))) {
      fprintf(stderr, "after %d: ", i);
      fail("ibv_create_qp");
    }
  }
  struct ibv_qp *const first = qps[0], *const last = qps[count - 1];
  connect_to(first, last->qp_num, &gid);
  connect_to(last, first->qp_num, &gid);
  write_and_look(first, cq, mr, memory);
  write_and_look(last, cq, mr, memory);
  for (int i = 0; i < count; i++) {
    if (ibv_destroy_qp(qps[i])) fail("ibv_destroy_qp");
  }
  printf("%d queue pairs\n", count);
  return 0;
}
