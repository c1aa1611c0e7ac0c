/* Calls whose structures grew from release to release, and those that the headers make of inline functions: a port and
 * a device described, an extended completion queue, queue pairs with ibv_wr_*. For headers of releases from 25 on. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBytes = 4096 };

static void need(int holds, const char* what) {
  if (holds) return;
  perror(what);
  exit(1);
}

static struct ibv_qp* make(struct ibv_context* device, struct ibv_pd* pd, struct ibv_cq* cq) {
  struct ibv_qp_init_attr_ex attr;
  memset(&attr, 0, sizeof attr);
  attr.qp_type = IBV_QPT_RC;
  attr.send_cq = attr.recv_cq = cq;
  attr.cap.max_send_wr = attr.cap.max_recv_wr = attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = pd;
  attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  struct ibv_qp* const qp = ibv_create_qp_ex(device, &attr);
  need(qp != NULL, "ibv_create_qp_ex");
  return qp;
}

static void connect_to(struct ibv_qp* qp, uint32_t peer, const union ibv_gid* gid) {
  struct ibv_qp_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "INIT");
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = *gid;
  attr.ah_attr.grh.sgid_index = 1;
  attr.ah_attr.grh.hop_limit = 1;
  need(ibv_modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
       "RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.max_rd_atomic = 1;
  need(ibv_modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                         IBV_QP_MAX_QP_RD_ATOMIC) == 0,
       "RTS");
}

static void describe(struct ibv_context* device, union ibv_gid* gid) {
  /* What is behind the structure that these headers know must stay as it is. */
  struct {
    struct ibv_port_attr attr;
    unsigned char behind[64];
  } port;
  memset(&port, 0xa5, sizeof port);
  need(ibv_query_port(device, 1, &port.attr) == 0 && port.attr.state == IBV_PORT_ACTIVE, "ibv_query_port");
  struct {
    struct ibv_device_attr_ex attr;
    unsigned char behind[256];
  } extended;
  memset(&extended, 0xa5, sizeof extended);
  need(ibv_query_device_ex(device, NULL, &extended.attr) == 0 && extended.attr.orig_attr.max_qp > 0,
       "ibv_query_device_ex");
  for (size_t i = 0; i < sizeof port.behind; i++) need(port.behind[i] == 0xa5, "behind ibv_port_attr");
  for (size_t i = 0; i < sizeof extended.behind; i++) need(extended.behind[i] == 0xa5, "behind ibv_device_attr_ex");
  need(ibv_query_gid(device, 1, 1, gid) == 0, "ibv_query_gid");
}

int main(void) {
  struct ibv_device** const list = ibv_get_device_list(NULL);
  need(list != NULL && list[0] != NULL, "ibv_get_device_list");
  struct ibv_context* const device = ibv_open_device(list[0]);
  need(device != NULL, "ibv_open_device");
  union ibv_gid gid;
  describe(device, &gid);
  struct ibv_pd* const pd = ibv_alloc_pd(device);
  struct ibv_cq_init_attr_ex queue = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM};
  struct ibv_cq_ex* const cq = ibv_create_cq_ex(device, &queue);
  need(pd != NULL && cq != NULL, "ibv_create_cq_ex");
  static unsigned char from[kBytes], to[kBytes];
  for (int i = 0; i < kBytes; i++) from[i] = (unsigned char)(i * 7 + 1);
  struct ibv_mr* const source = ibv_reg_mr(pd, from, sizeof from, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_mr* const target = ibv_reg_mr(pd, to, sizeof to, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  need(source != NULL && target != NULL, "ibv_reg_mr");
  struct ibv_qp *const left = make(device, pd, ibv_cq_ex_to_cq(cq)), *const right =
                                                                         make(device, pd, ibv_cq_ex_to_cq(cq));
  connect_to(left, right->qp_num, &gid);
  connect_to(right, left->qp_num, &gid);
  struct ibv_recv_wr receive = {.wr_id = 2}, *bad;
  need(ibv_post_recv(right, &receive, &bad) == 0, "ibv_post_recv");
  struct ibv_qp_ex* const sender = ibv_qp_to_qp_ex(left);
  need(sender != NULL, "ibv_qp_to_qp_ex");
  ibv_wr_start(sender);
  sender->wr_id = 1;
  sender->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write_imm(sender, target->rkey, (uint64_t)(uintptr_t)to, 0x01020304);
  ibv_wr_set_sge(sender, source->lkey, (uint64_t)(uintptr_t)from, kBytes);
  need(ibv_wr_complete(sender) == 0, "ibv_wr_complete");
  for (unsigned seen = 0; seen != 3;) {
    struct ibv_poll_cq_attr poll = {0};
    if (ibv_start_poll(cq, &poll) != 0) continue;
    need(cq->status == IBV_WC_SUCCESS, "a completion");
    if (cq->wr_id == 2)
      need(ibv_wc_read_byte_len(cq) == kBytes && ibv_wc_read_imm_data(cq) == 0x01020304, "what it says");
    seen |= (unsigned)cq->wr_id;
    ibv_end_poll(cq);
  }
  need(memcmp(from, to, kBytes) == 0, "the data");
  need(ibv_destroy_qp(left) == 0 && ibv_destroy_qp(right) == 0 && ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0, "the end");
  printf("every form verified\n");
  return 0;
}
