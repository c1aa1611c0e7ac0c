/* Processes of one machine, all connected with each other, of which one is killed every now and then, and another takes
 * its place. Whoever lives sends everybody messages without end, and looks at every byte that it receives.
 *
 *   verbs_crowd PROCESSES SURVIVORS SECONDS KILL_EVERY_MS SEED
 *
 * The first SURVIVORS are never killed. At the end nobody is killed for two seconds; then the survivors must still hear
 * from each other, and have exactly the memory of the segment that they have with those who live, and no descriptors
 * more than at first. Prints how many messages were verified, and how many processes were killed. */
#include <dirent.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kMost = 64, kDepth = 4, kBytes = 8192, kQuietMs = 2000 };

/* One end of a connection, in one word, so that nobody sees half of it. */
struct end {
  uint32_t qpn;
  uint16_t mine, theirs; /* which life of this place it is, and of the other */
};

struct shared {
  uint16_t life[kMost]; /* 0: nobody there yet; changes before its process is killed */
  uint16_t open[kMost]; /* the life that has opened the device */
  uint64_t end[kMost][kMost];
  long verified[kMost][kMost]; /* messages of the second place, by the first; of all its lives */
  int stop;                    /* 1: look what you have; 2: that was all */
  int looked;
};

static struct shared* all;
static int processes, survivors, me;
static uint16_t my_life;

static void fail(const char* what) {
  fprintf(stderr, "process %d (life %d): %s (errno %d: %s)\n", me, my_life, what, errno, strerror(errno));
  exit(1);
}

static uint16_t life_of(int place) { return __atomic_load_n(&all->life[place], __ATOMIC_ACQUIRE); }

static uint32_t word_of(int from, int life, int to, uint32_t number, size_t i) {
  const uint32_t x = (uint32_t)(from * 7919 + to * 104729 + life * 15485863) + number * 1299709u + (uint32_t)i * 2654435761u;
  return x ^ x >> 15;
}

struct peer {
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  uint32_t* memory; /* kDepth messages to send, kDepth that are received */
  uint16_t life;
  int connected;
  uint32_t sent, received;
};

static struct peer peers[kMost];
static struct ibv_context* device;
static struct ibv_pd* pd;
static struct ibv_cq* cq;
static union ibv_gid gid; /* of everybody: they are one host */

static uint32_t* place_of(struct peer* p, int receive, uint32_t number) {
  return p->memory + (size_t)((receive ? kDepth : 0) + number % kDepth) * (kBytes / 4);
}

/* Peer, life of the peer, and whether it is a receive. */
static uint64_t id_of(int other, int receive) {
  return (uint64_t)other << 32 | (uint64_t)peers[other].life << 1 | (uint64_t)receive;
}

static void post_receive(int other, uint32_t number) {
  struct peer* p = &peers[other];
  struct ibv_sge sge = {(uintptr_t)place_of(p, 1, number), kBytes, p->mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = id_of(other, 1), .sg_list = &sge, .num_sge = 1}, *bad;
  if (ibv_post_recv(p->qp, &wr, &bad) != 0) fail("ibv_post_recv");
}

static void post_send(int other) {
  struct peer* p = &peers[other];
  uint32_t* words = place_of(p, 0, p->sent);
  for (size_t i = 0; i < kBytes / 4; i++) words[i] = word_of(me, my_life, other, p->sent, i);
  p->sent++;
  struct ibv_sge sge = {(uintptr_t)words, kBytes, p->mr->lkey};
  struct ibv_send_wr wr = {.wr_id = id_of(other, 0), .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
                           .send_flags = IBV_SEND_SIGNALED}, *bad;
  if (ibv_post_send(p->qp, &wr, &bad) != 0) fail("ibv_post_send");
}

static void forget(int other) {
  struct peer* p = &peers[other];
  if (p->qp == NULL) return;
  if (ibv_destroy_qp(p->qp) != 0 || ibv_dereg_mr(p->mr) != 0) fail("ibv_destroy_qp or ibv_dereg_mr");
  free(p->memory);
  memset(p, 0, sizeof *p);
}

static void prepare(int other, uint16_t life) {
  struct peer* p = &peers[other];
  p->life = life;
  p->memory = aligned_alloc(4096, 2 * kDepth * kBytes);
  p->mr = ibv_reg_mr(pd, p->memory, 2 * kDepth * kBytes, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                  .cap = {.max_send_wr = kDepth, .max_recv_wr = kDepth, .max_send_sge = 1, .max_recv_sge = 1}};
  p->qp = ibv_create_qp(pd, &init);
  if (p->mr == NULL || p->qp == NULL) fail("ibv_reg_mr or ibv_create_qp");
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  if (ibv_modify_qp(p->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) fail("INIT");
  for (uint32_t i = 0; i < kDepth; i++) post_receive(other, i);
  const struct end end = {p->qp->qp_num, my_life, life};
  uint64_t word;
  memcpy(&word, &end, sizeof word);
  __atomic_store_n(&all->end[me][other], word, __ATOMIC_RELEASE);
}

static void connect_to(int other, uint32_t qpn) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = qpn, .rq_psn = 1,
                             .max_dest_rd_atomic = 1, .min_rnr_timer = 12};
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = gid;
  attr.ah_attr.grh.sgid_index = 1;
  attr.ah_attr.grh.hop_limit = 64;
  if (ibv_modify_qp(peers[other].qp, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
    fail("RTR");
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = 1, .timeout = 17, .retry_cnt = 7, .rnr_retry = 7,
                            .max_rd_atomic = 1};
  if (ibv_modify_qp(peers[other].qp, &rts,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                        IBV_QP_MAX_QP_RD_ATOMIC) != 0)
    fail("RTS");
  peers[other].connected = 1;
  for (int i = 0; i < kDepth; i++) post_send(other);
}

/* Who has come, who has gone, and who is ready. */
static void look_around(void) {
  for (int other = 0; other < processes; other++) {
    if (other == me) continue;
    const uint16_t life = life_of(other);
    if (peers[other].qp != NULL && peers[other].life != life) forget(other);
    if (peers[other].qp == NULL && life != 0 && __atomic_load_n(&all->open[other], __ATOMIC_ACQUIRE) == life) prepare(other, life);
    if (peers[other].qp == NULL || peers[other].connected) continue;
    const uint64_t word = __atomic_load_n(&all->end[other][me], __ATOMIC_ACQUIRE);
    struct end end;
    memcpy(&end, &word, sizeof end);
    if (end.mine == life && end.theirs == my_life) connect_to(other, end.qpn);
  }
}

static void on_completion(const struct ibv_wc* wc) {
  const int other = (int)(wc->wr_id >> 32);
  struct peer* p = &peers[other];
  if ((uint16_t)(wc->wr_id >> 1) != p->life) fail("a completion of a queue pair that is gone");
  if (wc->status != IBV_WC_SUCCESS) {
    if (life_of(other) != p->life) return; /* it was killed */
    fprintf(stderr, "with process %d (life %d): %s\n", other, p->life, ibv_wc_status_str(wc->status));
    fail("a connection with somebody who lives has failed");
  }
  if ((wc->wr_id & 1) == 0) return post_send(other);
  const uint32_t number = p->received++;
  const uint32_t* words = place_of(p, 1, number);
  if (wc->byte_len != kBytes) fail("a message of another length");
  for (size_t i = 0; i < kBytes / 4; i++) {
    if (words[i] != word_of(other, p->life, me, number, i)) fail("a message is wrong");
  }
  all->verified[me][other]++;
  post_receive(other, number + kDepth);
}

static int count_descriptors(void) {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  if (dir == NULL) fail("/proc/self/fd");
  while (readdir(dir) != NULL) count++;
  closedir(dir);
  return count;
}

static int count_mappings(const char* name) {
  int count = 0;
  char line[512];
  FILE* maps = fopen("/proc/self/maps", "r");
  if (maps == NULL) fail("/proc/self/maps");
  while (fgets(line, sizeof line, maps) != NULL) count += strstr(line, name) != NULL;
  fclose(maps);
  return count;
}

/* Everybody lives now, and has for two seconds. A thread of the library's may have a file open for a moment, so what is
 * not right is looked at again; `last`: no more. */
static int memory_is_right(int descriptors, int last) {
  const int lanes = count_mappings("memfd:uroce-lane"), bases = count_mappings("memfd:uroce-segment");
  const int more = count_descriptors() - descriptors;
  if (lanes == 2 * (processes - 1) && bases == processes && more <= 0) return 1;
  if (!last) return 0;
  fprintf(stderr, "process %d has %d halves of lanes, %d are right; %d pools, %d are right; %d descriptors more than at first\n", me,
          lanes, 2 * (processes - 1), bases, processes, more);
  for (int fd = 0; fd < 1024; fd++) {
    char name[64], what[256] = "";
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (readlink(name, what, sizeof what - 1) > 0) fprintf(stderr, "  %d %s\n", fd, what);
  }
  exit(1);
}

static long ms(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void live(int place, uint16_t life) {
  me = place;
  my_life = life;
  struct ibv_device** list = ibv_get_device_list(NULL);
  if (list == NULL || list[0] == NULL) fail("no device");
  device = ibv_open_device(list[0]);
  if (device == NULL) fail("ibv_open_device");
  pd = ibv_alloc_pd(device);
  cq = ibv_create_cq(device, 2 * kDepth * processes, NULL, NULL, 0);
  if (pd == NULL || cq == NULL || ibv_query_gid(device, 1, 1, &gid) != 0) fail("objects");
  /* At first: before there is any lane. */
  const int descriptors = count_descriptors();
  __atomic_store_n(&all->open[me], my_life, __ATOMIC_RELEASE);
  long look_until = 0;
  int looked = 0;
  for (;;) {
    const int stop = __atomic_load_n(&all->stop, __ATOMIC_ACQUIRE);
    if (stop == 2) exit(0);
    if (stop == 1 && me < survivors && !looked) {
      if (look_until == 0) look_until = ms() + 3000;
      looked = memory_is_right(descriptors, ms() > look_until);
      if (looked) __atomic_add_fetch(&all->looked, 1, __ATOMIC_SEQ_CST);
    }
    look_around();
    struct ibv_wc wc[16];
    const int got = ibv_poll_cq(cq, 16, wc);
    if (got < 0) fail("ibv_poll_cq");
    for (int i = 0; i < got; i++) on_completion(&wc[i]);
  }
}

static pid_t pids[kMost];

static void start(int place) {
  const uint16_t life = life_of(place);
  pids[place] = fork();
  if (pids[place] == 0) live(place, life);
}

/* True when one of them has ended by itself, which none does. */
static int anybody_gone(void) {
  siginfo_t info = {0};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* For so long, or until somebody is gone; 0 then. */
static int pass(long for_ms) {
  const long end = ms() + for_ms;
  while (ms() < end) {
    if (anybody_gone()) return 0;
    usleep(5000);
  }
  return 1;
}

static void replace(int place) {
  all->life[place] = (uint16_t)(all->life[place] + 1); /* from now on its errors count for nothing */
  kill(pids[place], SIGKILL);
  waitpid(pids[place], NULL, 0);
  start(place);
}

/* Every survivor hears from every other. Returns 0 when not, after a long time. */
static int all_hear(void) {
  long before[kMost][kMost];
  memcpy(before, all->verified, sizeof before);
  for (int i = 0; i < 300; i++) {
    int missing = 0;
    for (int a = 0; a < survivors; a++) {
      for (int b = 0; b < processes; b++) missing += a != b && all->verified[a][b] <= before[a][b];
    }
    if (missing == 0) return 1;
    if (!pass(100)) return 0;
  }
  fprintf(stderr, "not all survivors hear from everybody\n");
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 6) return fprintf(stderr, "verbs_crowd PROCESSES SURVIVORS SECONDS KILL_EVERY_MS SEED\n"), 2;
  processes = atoi(argv[1]);
  survivors = atoi(argv[2]);
  if (processes < 2 || processes > kMost || survivors < 1 || survivors >= processes) return 2;
  const long seconds = atol(argv[3]), every = atol(argv[4]);
  srand((unsigned)atoi(argv[5]));
  all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < processes; i++) {
    all->life[i] = 1;
    start(i);
  }
  int good = all_hear();
  long killed = 0;
  for (const long end = ms() + seconds * 1000; good && ms() < end; killed++) {
    good = pass(every);
    if (good) replace(survivors + rand() % (processes - survivors));
  }
  good = good && all_hear() && pass(kQuietMs);
  __atomic_store_n(&all->stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; good && i < 3000 && all->looked < survivors; i++) good = pass(10);
  good = good && all->looked == survivors && all_hear();
  __atomic_store_n(&all->stop, good ? 2 : 1, __ATOMIC_RELEASE);
  for (int i = 0; i < processes; i++) {
    int status = 0;
    if (!good) kill(pids[i], SIGTERM);
    waitpid(pids[i], &status, 0);
    good = good && status == 0;
  }
  long verified = 0;
  for (int a = 0; a < processes; a++) {
    for (int b = 0; b < processes; b++) verified += all->verified[a][b];
  }
  printf("%ld messages of %d bytes verified, %ld processes killed\n", verified, kBytes, killed);
  return good ? 0 : 1;
}
