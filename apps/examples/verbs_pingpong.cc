// Plain verbs: two reliable queue pairs that pass a message to and fro. The two sides exchange what they have to know
// of each other over TCP. With librdmacm (the other examples) none of that would be needed.
//
//   verbs_pingpong [-p PORT] [-n COUNT]            server: waits for one client at TCP port PORT
//   verbs_pingpong [-p PORT] [-n COUNT] ADDRESS    client
#include <infiniband/verbs.h>
#include <netdb.h>
#include <unistd.h>

#include <string>

#include "check.h"

namespace {

using examples::fail;
using examples::need;
using examples::need_zero;

constexpr uint8_t kPort = 1;

template <typename T, auto kEnd>
using Owned = std::unique_ptr<T, examples::Calls<kEnd>>;

/// Where a queue pair is.
struct Place {
  ibv_gid gid;
  uint32_t qpn;
  uint32_t psn;
};

/// The first GID of RoCEv2 that is not link-local, if there is one.
ibv_gid_entry gid_of(ibv_context* context) {
  ibv_gid_entry best{};
  ibv_gid_entry entry{};
  bool found = false;
  for (uint32_t i = 0; i < 16; i++) {
    if (ibv_query_gid_ex(context, kPort, i, &entry, 0) != 0 || entry.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
    if (!found || best.gid.raw[0] == 0xfe) best = entry;
    found = true;
  }
  if (!found) fail("ibv_query_gid_ex", "the port has no GID of RoCEv2");
  return best;
}

/// A TCP connection to the server, or from the client.
int meet(const char* address, const char* port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_family = AF_INET;
  if (address == nullptr) hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address, port, &hints, &found);
  if (error != 0) fail("getaddrinfo", gai_strerror(error));
  const int fd = socket(found->ai_family, found->ai_socktype, 0);
  if (fd < 0) fail("socket", std::strerror(errno));
  int other = fd;
  if (address != nullptr) {
    need_zero(connect(fd, found->ai_addr, found->ai_addrlen), "connect");
  } else {
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    need_zero(bind(fd, found->ai_addr, found->ai_addrlen), "bind");
    need_zero(listen(fd, 1), "listen");
    other = accept(fd, nullptr, nullptr);
    if (other < 0) fail("accept", std::strerror(errno));
    close(fd);
  }
  freeaddrinfo(found);
  return other;
}

template <typename T>
T exchange(int fd, const T& ours) {
  T theirs;
  if (write(fd, &ours, sizeof ours) != sizeof ours) fail("write", "the peer is gone");
  if (recv(fd, &theirs, sizeof theirs, MSG_WAITALL) != sizeof theirs) fail("recv", "the peer is gone");
  return theirs;
}

/// RESET to INIT to RTR (ready to receive) to RTS (ready to send).
void bring_up(ibv_qp* qp, const ibv_gid_entry& gid, uint32_t psn, const Place& peer) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = kPort;
  need_zero(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            "ibv_modify_qp to INIT");
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer.qpn;
  attr.rq_psn = peer.psn;
  attr.min_rnr_timer = 12;  // 0.64 ms
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = kPort;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid.gid_index);
  attr.ah_attr.grh.hop_limit = 64;
  need_zero(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            "ibv_modify_qp to RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = psn;
  attr.timeout = 14;  // 67 ms
  attr.retry_cnt = attr.rnr_retry = 7;
  need_zero(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_MAX_QP_RD_ATOMIC),
            "ibv_modify_qp to RTS");
}

void post_receive(ibv_qp* qp, ibv_sge* sge) {
  ibv_recv_wr wr{};
  wr.sg_list = sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  need_zero(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

void post_send(ibv_qp* qp, ibv_sge* sge) {
  ibv_send_wr wr{};
  wr.sg_list = sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  need_zero(ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

/// Polls until so many receives have completed.
void wait_for(ibv_cq* cq, uint32_t& received, uint32_t wanted) {
  while (received < wanted) {
    ibv_wc wc;
    const int count = ibv_poll_cq(cq, 1, &wc);
    if (count < 0) fail("ibv_poll_cq", "the queue is broken");
    if (count == 0) continue;
    if (wc.status != IBV_WC_SUCCESS) fail("a work request", ibv_wc_status_str(wc.status));
    if (wc.opcode == IBV_WC_RECV) received++;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* port = "18515";
  uint32_t count = 1000;
  for (int option; (option = getopt(argc, argv, "p:n:")) != -1;) {
    if (option == 'p') port = optarg;
    if (option == 'n') count = static_cast<uint32_t>(std::stoul(optarg));
    if (option == '?') return 2;
  }
  const bool client = optind < argc;

  ibv_device** devices = need(ibv_get_device_list(nullptr), "ibv_get_device_list");
  if (devices[0] == nullptr) fail("ibv_get_device_list", "there is no device");
  const Owned<ibv_context, ibv_close_device> context(need(ibv_open_device(devices[0]), "ibv_open_device"));
  ibv_free_device_list(devices);
  const Owned<ibv_pd, ibv_dealloc_pd> pd(need(ibv_alloc_pd(context.get()), "ibv_alloc_pd"));
  struct {
    char in[64];
    char out[64];
  } lines{};
  const Owned<ibv_mr, ibv_dereg_mr> mr(
      need(ibv_reg_mr(pd.get(), &lines, sizeof lines, int{IBV_ACCESS_LOCAL_WRITE}), "ibv_reg_mr"));
  const Owned<ibv_cq, ibv_destroy_cq> cq(need(ibv_create_cq(context.get(), 8, nullptr, nullptr, 0), "ibv_create_cq"));
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq.get();
  init.cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  init.qp_type = IBV_QPT_RC;
  const Owned<ibv_qp, ibv_destroy_qp> qp(need(ibv_create_qp(pd.get(), &init), "ibv_create_qp"));

  const ibv_gid_entry gid = gid_of(context.get());
  const auto psn = static_cast<uint32_t>(getpid()) & 0xffffff;
  const int tcp = meet(client ? argv[optind] : nullptr, port);
  bring_up(qp.get(), gid, psn, exchange(tcp, Place{gid.gid, qp->qp_num, psn}));
  ibv_sge in{reinterpret_cast<uint64_t>(lines.in), sizeof lines.in, mr->lkey};
  ibv_sge out{reinterpret_cast<uint64_t>(lines.out), sizeof lines.out, mr->lkey};
  post_receive(qp.get(), &in);
  exchange(tcp, 'r');  // both can receive now

  uint32_t received = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (client) {
      std::snprintf(lines.out, sizeof lines.out, "ping %u", i);
      post_send(qp.get(), &out);
    }
    wait_for(cq.get(), received, i + 1);
    if (lines.in != (client ? "pong " : "ping ") + std::to_string(i)) fail("comparing", "the message is another one");
    if (i + 1 < count) post_receive(qp.get(), &in);
    if (client) continue;
    std::snprintf(lines.out, sizeof lines.out, "pong %u", i);
    post_send(qp.get(), &out);
  }
  exchange(tcp, 'd');  // the last answer has arrived
  close(tcp);
  std::printf("%u messages there and back\n", count);
}
