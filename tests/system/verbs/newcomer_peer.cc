// The peer of a newcomer: a process that has all that it needs.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "newcomer.h"
#include "newcomer_connections.h"
#include "sweep.h"

namespace verbs_test {
namespace {

/// What the newcomer asks the peer for.
struct Wish {
  bool call_back;
  Peer::End end;
};

class Server {
 public:
  explicit Server(int socket) : socket_(socket) {}

  [[noreturn]] void run() {
    context_ = ibv_open_device(the_device());
    channel_ = rdma_create_event_channel();
    if (context_ == nullptr || channel_ == nullptr) _exit(1);
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
    mr_ = ibv_reg_mr(pd_, buffer_, sizeof buffer_, IBV_ACCESS_LOCAL_WRITE);
    rdma_cm_id* listener = nullptr;
    if (rdma_create_id(channel_, &listener, nullptr, RDMA_PS_TCP) != 0 || bind_to(listener, Peer::kPort) != 0 ||
        rdma_listen(listener, 4) != 0)
      _exit(1);
    const Peer::End ready{};
    if (send(socket_, &ready, sizeof ready, 0) != sizeof ready) _exit(1);
    for (;;) turn();
  }

 private:
  void turn() {
    pollfd entries[] = {{socket_, POLLIN, 0}, {channel_->fd, POLLIN, 0}};
    poll(entries, 2, -1);
    if (entries[1].revents != 0) serve_event();
    if (entries[0].revents == 0) return;
    Wish wish{};
    if (recv(socket_, &wish, sizeof wish, 0) != sizeof wish) _exit(0);
    if (wish.call_back) {
      call_back();
    } else {
      pair_up(wish.end);
    }
  }

  void pair_up(const Peer::End& with) {
    if (qp_ != nullptr) ibv_destroy_qp(qp_);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {4, 4, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    qp_ = ibv_create_qp(pd_, &init);
    if (qp_ == nullptr || bring_to_rts(qp_, with) != 0) _exit(1);
    ibv_sge piece{reinterpret_cast<uint64_t>(buffer_), sizeof buffer_, mr_->lkey};
    ibv_recv_wr receive{};
    receive.sg_list = &piece;
    receive.num_sge = 1;
    ibv_recv_wr* bad;
    if (ibv_post_recv(qp_, &receive, &bad) != 0) _exit(1);
    const Peer::End own{qp_->qp_num, own_gid(context_)};
    if (send(socket_, &own, sizeof own, 0) != sizeof own) _exit(1);
  }

  void call_back() const {
    rdma_event_channel* const channel = rdma_create_event_channel();
    rdma_cm_id* id = nullptr;
    if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) _exit(1);
    static_cast<void>(connect_to(context_, channel, id, Peer::kOwnPort, [] {}));
    rdma_disconnect(id);
    if (id->qp != nullptr) rdma_destroy_qp(id);
    rdma_destroy_id(id);
    rdma_destroy_event_channel(channel);
  }

  void serve_event() const {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel_, &event) != 0) _exit(1);
    const rdma_cm_event_type type = event->event;
    rdma_cm_id* const id = event->id;
    rdma_ack_cm_event(event);
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      rdma_conn_param param{};
      param.rnr_retry_count = 7;
      if (give_queue_pair(id) != 0 || rdma_accept(id, &param) != 0) rdma_destroy_id(id);
    } else if (type != RDMA_CM_EVENT_ESTABLISHED && type != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
      rdma_disconnect(id);
      if (id->qp != nullptr) rdma_destroy_qp(id);
      rdma_destroy_id(id);
    }
  }

  const int socket_;
  uint8_t buffer_[64]{};
  ibv_context* context_ = nullptr;
  rdma_event_channel* channel_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

}  // namespace

Peer::Peer() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) std::abort();
  process_ = fork();
  if (process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[0]);
    Server(ends[1]).run();
  }
  close(ends[1]);
  socket_ = ends[0];
  End ready;
  if (recv(socket_, &ready, sizeof ready, 0) != sizeof ready) std::abort();
}

Peer::~Peer() {
  close(socket_);
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

Peer::End Peer::connect(const End& own) const {
  const Wish wish{false, own};
  End end{};
  if (send(socket_, &wish, sizeof wish, 0) != sizeof wish || recv(socket_, &end, sizeof end, 0) != sizeof end)
    std::abort();
  return end;
}

void Peer::call_back() const {
  const Wish wish{true, {}};
  if (send(socket_, &wish, sizeof wish, 0) != sizeof wish) std::abort();
}

}  // namespace verbs_test
