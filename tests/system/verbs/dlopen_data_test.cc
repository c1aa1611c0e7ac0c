// Two processes that load libibverbs by themselves, symbol by symbol with its version, as NCCL does, and move data with
// RDMA WRITE with immediate data. Functions of verbs.h that are no symbols (ibv_post_send, ibv_poll_cq) go through the
// context, as ever.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <thread>
#include <vector>

namespace {

constexpr uint32_t kBytes = 1 << 20;
constexpr uint32_t kImmediate = 0x4e43434c;

struct Library {
  void* handle = dlopen("libibverbs.so.1", RTLD_NOW);
  template <typename F>
  F* get(F* /*type*/, const char* name, const char* version) const {
    void* const symbol = handle != nullptr ? dlvsym(handle, name, version) : nullptr;
    if (symbol == nullptr) {
      std::fprintf(stderr, "%s@%s: %s\n", name, version, handle != nullptr ? "not there" : dlerror());
      _exit(90);
    }
    return reinterpret_cast<F*>(symbol);
  }
};

#define CALL(library, name, version) ((library).get(&(name), #name, version))

struct Place {
  ibv_gid gid;
  uint32_t qpn;
  uint32_t rkey;
  uint64_t addr;
};

/// Returns 0, or the number of the step that failed.
int bring_up(const Library& library, ibv_qp* qp, const Place& peer) {
  const auto modify = CALL(library, ibv_modify_qp, "IBVERBS_1.1");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) return 1;
  ibv_ece ece{};
  if (CALL(library, ibv_query_ece, "IBVERBS_1.10")(qp, &ece) != 0) return 2;
  if (CALL(library, ibv_set_ece, "IBVERBS_1.10")(qp, &ece) != 0) return 3;
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_4096;
  attr.dest_qp_num = peer.qpn;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.sgid_index = 1;
  attr.ah_attr.grh.hop_limit = 64;
  constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (modify(qp, &attr, kToRtr) != 0) return 4;
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  constexpr int kToRts =
      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return modify(qp, &attr, kToRts) == 0 ? 0 : 5;
}

/// Returns the completion, or one with the status of a lost connection.
ibv_wc wait_for_one(ibv_cq* cq) {
  ibv_wc wc{};
  wc.status = IBV_WC_RESP_TIMEOUT_ERR;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < end && ibv_poll_cq(cq, 1, &wc) == 0) {
  }
  return wc;
}

int write_to_peer(ibv_qp* qp, ibv_cq* cq, const ibv_mr& mr, const Place& peer) {
  ibv_sge sge{reinterpret_cast<uint64_t>(mr.addr), kBytes, mr.lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.imm_data = kImmediate;
  wr.wr.rdma = {peer.addr, peer.rkey};
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(qp, &wr, &bad) != 0) return 20;
  return wait_for_one(cq).status == IBV_WC_SUCCESS ? 0 : 21;
}

/// One side of the connection. Returns 0, or the number of the step that failed.
int run_side(bool writes, int peer_fd) {
  static const Library library;  // used by the thread, too
  int count = 0;
  ibv_device** list = CALL(library, ibv_get_device_list, "IBVERBS_1.1")(&count);
  if (count != 1) return 10;
  ibv_context* context = CALL(library, ibv_open_device, "IBVERBS_1.1")(list[0]);
  if (context == nullptr) return 11;
  // The thread waits for events as long as the program runs.
  std::thread([context] {
    ibv_async_event event;
    while (CALL(library, ibv_get_async_event, "IBVERBS_1.1")(context, &event) == 0)
      CALL(library, ibv_ack_async_event, "IBVERBS_1.1")(&event);
  }).detach();
  ibv_pd* pd = CALL(library, ibv_alloc_pd, "IBVERBS_1.1")(context);
  errno = 0;
  if (CALL(library, ibv_reg_dmabuf_mr, "IBVERBS_1.12")(pd, 0, 0, 0, -1, 0) != nullptr || errno != EOPNOTSUPP) return 12;
  std::vector<uint8_t> memory(kBytes);
  if (writes) std::iota(memory.begin(), memory.end(), uint8_t{7});
  ibv_mr* mr = CALL(library, ibv_reg_mr_iova2, "IBVERBS_1.8")(
      pd, memory.data(), kBytes, reinterpret_cast<uint64_t>(memory.data()),
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);
  ibv_cq* cq = CALL(library, ibv_create_cq, "IBVERBS_1.1")(context, 8, nullptr, nullptr, 0);
  if (mr == nullptr || cq == nullptr) return 13;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {2, 2, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* qp = CALL(library, ibv_create_qp, "IBVERBS_1.1")(pd, &init);
  if (qp == nullptr) return 14;

  Place here{{}, qp->qp_num, mr->rkey, reinterpret_cast<uint64_t>(memory.data())};
  Place there{};
  if (CALL(library, ibv_query_gid, "IBVERBS_1.1")(context, 1, 1, &here.gid) != 0) return 15;
  if (write(peer_fd, &here, sizeof here) != sizeof here || read(peer_fd, &there, sizeof there) != sizeof there)
    return 16;
  if (const int step = bring_up(library, qp, there); step != 0) return step;
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  if (!writes && ibv_post_recv(qp, &wr, &bad) != 0) return 17;
  char ready = 'r';
  if (write(peer_fd, &ready, 1) != 1 || read(peer_fd, &ready, 1) != 1) return 18;
  if (writes) return write_to_peer(qp, cq, *mr, there);
  const ibv_wc wc = wait_for_one(cq);
  if (wc.status != IBV_WC_SUCCESS || wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM || wc.byte_len != kBytes) return 30;
  if (wc.imm_data != kImmediate || (wc.wc_flags & IBV_WC_WITH_IMM) == 0) return 31;
  std::vector<uint8_t> expected(kBytes);
  std::iota(expected.begin(), expected.end(), uint8_t{7});
  return memory == expected ? 0 : 32;
}

TEST(DlopenDataTest, TwoProcessesMoveDataBetweenThem) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  pid_t children[2];
  for (int side = 0; side < 2; side++) {
    children[side] = fork();
    if (children[side] != 0) continue;
    close(fds[1 - side]);
    const int step = run_side(side == 0, fds[side]);
    // The other side may still need acknowledgements from this one.
    char end = 'e';
    const bool met = write(fds[side], &end, 1) == 1 && read(fds[side], &end, 1) == 1;
    _exit(step != 0 || met ? step : 91);
  }
  close(fds[0]);
  close(fds[1]);
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "step " << WEXITSTATUS(status);
  }
}

}  // namespace
