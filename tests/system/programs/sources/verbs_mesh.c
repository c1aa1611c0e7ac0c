/* Processes of one machine, each with a queue pair to many others, who send each other messages and look at every byte.
 *
 *   verbs_mesh PROCESSES TOPOLOGY BYTES MESSAGES [events] [opened]
 *
 * TOPOLOGY is mesh (everybody with everybody), ring (with the next and the one before), or star (with the first). The
 * processes are forked before anybody opens the device; with `opened`, the first of them opens it, and then forks the
 * others, who open it too, once they have seen that they can use nothing that they inherited. With `events` they sleep
 * until a completion comes. Each prints nothing unless something is wrong; the parent prints what was verified. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kMost = 128, kDepth = 4 };

struct shared {
  int arrived[8];
  struct {
    uint32_t qpn[kMost];
    union ibv_gid gid;
  } of[kMost];
  long verified[kMost];
};

static struct shared* all;
static int processes, me, messages;
static size_t bytes;

static void fail(const char* what) {
  fprintf(stderr, "process %d: %s (errno %d: %s)\n", me, what, errno, strerror(errno));
  exit(1);
}

static void meet(int where) {
  __atomic_add_fetch(&all->arrived[where], 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&all->arrived[where], __ATOMIC_SEQ_CST) < processes) usleep(200);
}

static int joined(const char* topology, int a, int b) {
  if (a == b) return 0;
  if (topology[0] == 'm') return 1;
  if (topology[0] == 's') return a == 0 || b == 0;
  return (a + 1) % processes == b || (b + 1) % processes == a;
}

static uint32_t word_of(int from, int to, int number, size_t i) {
  uint32_t x = (uint32_t)(from * 7919 + to * 104729 + number * 1299709) + (uint32_t)i * 2654435761u;
  return x ^ x >> 15;
}

static void fill(uint32_t* words, int to, int number) {
  for (size_t i = 0; i < bytes / 4; i++) words[i] = word_of(me, to, number, i);
}

static void look(const uint32_t* words, int from, int number) {
  for (size_t i = 0; i < bytes / 4; i++) {
    if (words[i] != word_of(from, me, number, i)) {
      fprintf(stderr, "process %d: message %d of process %d is wrong at byte %zu\n", me, number, from, i * 4);
      exit(1);
    }
  }
}

struct peer {
  struct ibv_qp* qp;
  uint32_t* send;
  uint32_t* receive;
  struct ibv_mr* mr;
  int posted, sent, received;
};

static struct peer peers[kMost];
static struct ibv_context* device;
static struct ibv_pd* pd;
static struct ibv_cq* cq;
static struct ibv_comp_channel* channel;

static void post_receive(int from, int number) {
  struct peer* p = &peers[from];
  struct ibv_sge sge = {(uintptr_t)p->receive + (size_t)(number % kDepth) * bytes, (uint32_t)bytes, p->mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = (uint64_t)from << 32 | 1u << 31 | (uint32_t)number, .sg_list = &sge, .num_sge = 1}, *bad;
  if (ibv_post_recv(p->qp, &wr, &bad) != 0) fail("ibv_post_recv");
}

static void post_send(int to) {
  struct peer* p = &peers[to];
  const int number = p->posted++;
  uint32_t* where = p->send + (size_t)(number % kDepth) * bytes / 4;
  fill(where, to, number);
  struct ibv_sge sge = {(uintptr_t)where, (uint32_t)bytes, p->mr->lkey};
  struct ibv_send_wr wr = {.wr_id = (uint64_t)to << 32 | (uint32_t)number, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
                           .send_flags = IBV_SEND_SIGNALED}, *bad;
  if (ibv_post_send(p->qp, &wr, &bad) != 0) fail("ibv_post_send");
}

static void make_qp(int other) {
  struct peer* p = &peers[other];
  uint8_t* memory = aligned_alloc(4096, (2 * kDepth * bytes + 4095) / 4096 * 4096);
  p->send = (uint32_t*)memory;
  p->receive = (uint32_t*)(memory + kDepth * bytes);
  p->mr = ibv_reg_mr(pd, memory, 2 * kDepth * bytes, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                  .cap = {.max_send_wr = kDepth, .max_recv_wr = kDepth, .max_send_sge = 1, .max_recv_sge = 1}};
  p->qp = ibv_create_qp(pd, &init);
  if (p->mr == NULL || p->qp == NULL) fail("ibv_reg_mr or ibv_create_qp");
  all->of[me].qpn[other] = p->qp->qp_num;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  if (ibv_modify_qp(p->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) fail("INIT");
  for (int i = 0; i < kDepth && i < messages; i++) post_receive(other, i);
}

static void connect_qp(int other) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = all->of[other].qpn[me],
                             .rq_psn = 1, .max_dest_rd_atomic = 1, .min_rnr_timer = 12};
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = all->of[other].gid;
  attr.ah_attr.grh.sgid_index = 1;
  attr.ah_attr.grh.hop_limit = 64;
  if (ibv_modify_qp(peers[other].qp, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
    fail("RTR");
  // More than a second for each try when many processes share a few cores.
  const uint8_t timeout = processes > 16 ? 18 : 16;
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = 1, .timeout = timeout, .retry_cnt = 7, .rnr_retry = 7,
                            .max_rd_atomic = 1};
  if (ibv_modify_qp(peers[other].qp, &rts,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                        IBV_QP_MAX_QP_RD_ATOMIC) != 0)
    fail("RTS");
}

static void on_completion(const struct ibv_wc* wc, int* left) {
  const int other = (int)(wc->wr_id >> 32);
  const int number = (int)(wc->wr_id & 0x7FFFFFFF);
  if (wc->status != IBV_WC_SUCCESS) {
    fprintf(stderr, "process %d, with process %d: %s\n", me, other, ibv_wc_status_str(wc->status));
    exit(1);
  }
  struct peer* p = &peers[other];
  (*left)--;
  if ((wc->wr_id >> 31 & 1) == 0) {
    p->sent++;
    if (p->posted < messages) post_send(other);
    return;
  }
  if (number != p->received++ || wc->byte_len != bytes) fail("a message out of order, or of another length");
  look(p->receive + (size_t)(number % kDepth) * bytes / 4, other, number);
  all->verified[me]++;
  if (number + kDepth < messages) post_receive(other, number + kDepth);
}

static void wait_for_event(void) {
  struct ibv_cq* which;
  void* context;
  if (ibv_get_cq_event(channel, &which, &context) != 0) fail("ibv_get_cq_event");
  ibv_ack_cq_events(which, 1);
  if (ibv_req_notify_cq(cq, 0) != 0) fail("ibv_req_notify_cq");
}

static void open_device(int events) {
  int count = 0;
  struct ibv_device** list = ibv_get_device_list(&count);
  if (list == NULL || count == 0) fail("no device");
  device = ibv_open_device(list[0]);
  if (device == NULL) fail("ibv_open_device");
  pd = ibv_alloc_pd(device);
  channel = events ? ibv_create_comp_channel(device) : NULL;
  cq = ibv_create_cq(device, 2 * kDepth * processes, NULL, channel, 0);
  if (pd == NULL || cq == NULL || ibv_query_gid(device, 1, 1, &all->of[me].gid) != 0) fail("objects");
}

static void refuse_inherited(void) {
  struct ibv_wc wc;
  if (ibv_poll_cq(cq, 1, &wc) >= 0) fail("an inherited completion queue can be polled");
  errno = 0;
  if (ibv_alloc_pd(device) != NULL || errno != ENODEV) fail("an inherited device can be used");
  if (ibv_destroy_cq(cq) != 0 || ibv_dealloc_pd(pd) != 0) fail("what was inherited cannot be thrown away");
}

static int run(const char* topology, int events) {
  int left = 0;
  for (int other = 0; other < processes; other++) {
    if (joined(topology, me, other)) make_qp(other);
  }
  meet(0);
  for (int other = 0; other < processes; other++) {
    if (joined(topology, me, other)) connect_qp(other);
  }
  meet(1);
  if (events && ibv_req_notify_cq(cq, 0) != 0) fail("ibv_req_notify_cq");
  for (int other = 0; other < processes; other++) {
    if (!joined(topology, me, other)) continue;
    left += 2 * messages;
    for (int i = 0; i < kDepth && i < messages; i++) post_send(other);
  }
  struct ibv_wc wc[32];
  while (left > 0) {
    const int got = ibv_poll_cq(cq, 32, wc);
    if (got < 0) fail("ibv_poll_cq");
    for (int i = 0; i < got; i++) on_completion(&wc[i], &left);
    if (got == 0 && events && left > 0) wait_for_event();
  }
  meet(2);
  for (int other = 0; other < processes; other++) {
    if (peers[other].qp != NULL && ibv_destroy_qp(peers[other].qp) != 0) fail("ibv_destroy_qp");
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 5) return fprintf(stderr, "verbs_mesh PROCESSES TOPOLOGY BYTES MESSAGES [events] [opened]\n"), 2;
  processes = atoi(argv[1]);
  bytes = strtoul(argv[3], NULL, 0);
  messages = atoi(argv[4]);
  if (processes < 2 || processes > kMost || bytes % 4 != 0) return 2;
  all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int events = 0, opened = 0;
  for (int i = 5; i < argc; i++) {
    events |= strcmp(argv[i], "events") == 0;
    opened |= strcmp(argv[i], "opened") == 0;
  }
  pid_t children[kMost];
  if (opened) open_device(events);
  for (me = opened; me < processes; me++) {
    if ((children[me] = fork()) == 0) {
      if (opened) refuse_inherited();
      open_device(events);
      exit(run(argv[2], events));
    }
  }
  int bad = 0;
  long verified = 0;
  if (opened) {
    me = 0;
    bad = run(argv[2], events);
  }
  for (int i = opened; i < processes; i++) {
    int status = 0;
    waitpid(-1, &status, 0);
    if (status != 0 && !bad) {
      bad = 1;
      for (int k = opened; k < processes; k++) kill(children[k], 15);
    }
  }
  for (int i = 0; i < processes; i++) verified += all->verified[i];
  printf("%ld messages of %zu bytes verified\n", verified, bytes);
  return bad;
}
