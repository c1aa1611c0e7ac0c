// A loop over events of connection management and over completions: one thread, any number of connections.
//
//   cm_events [-p PORT] [-n COUNT]    server: answers COUNT clients (1), several at a time
//   cm_events [-p PORT] ADDRESS       client
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "check.h"

namespace {

using examples::fail;
using examples::need;
using examples::need_zero;

/// An id's context: what a connection has.
struct Connection {
  rdma_cm_id* id = nullptr;
  ibv_mr* region = nullptr;
  char in[64] = "";
  char out[64] = "";
};

/// Both sides. A client has one connection, which it opened.
class Loop {
 public:
  explicit Loop(bool client, int connections)
      : client_(client), left_(connections), events_(need(rdma_create_event_channel(), "rdma_create_event_channel")) {}
  ~Loop();
  void begin(addrinfo* address);
  void run();

 private:
  void on_event(const rdma_cm_event& event);
  void open(rdma_cm_id* id);
  void close(rdma_cm_id* id);
  void on_completion(const ibv_wc& wc);
  void take_completions();
  void expect(Connection& connection);
  void say(Connection& connection, const char* text);

  const bool client_;
  int left_;
  rdma_event_channel* const events_;
  rdma_cm_id* first_ = nullptr;  // the listener, or the client's
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
};

void Loop::begin(addrinfo* address) {
  need_zero(rdma_create_id(events_, &first_, nullptr, RDMA_PS_TCP), "rdma_create_id");
  if (client_) return need_zero(rdma_resolve_addr(first_, nullptr, address->ai_addr, 2000), "rdma_resolve_addr");
  need_zero(rdma_bind_addr(first_, address->ai_addr), "rdma_bind_addr");
  need_zero(rdma_listen(first_, 16), "rdma_listen");
  std::printf("listening to port %d\n", ntohs(rdma_get_src_port(first_)));
  std::fflush(stdout);
}

void Loop::run() {
  while (left_ > 0) {
    pollfd fds[] = {{events_->fd, POLLIN, 0}, {channel_ != nullptr ? channel_->fd : -1, POLLIN, 0}};
    if (poll(fds, std::size(fds), -1) < 0) fail("poll", std::strerror(errno));
    if ((fds[1].revents & POLLIN) != 0) take_completions();
    if ((fds[0].revents & POLLIN) == 0) continue;
    rdma_cm_event* event = nullptr;
    need_zero(rdma_get_cm_event(events_, &event), "rdma_get_cm_event");
    // An id can be destroyed only when its events are acknowledged.
    const rdma_cm_event copy = *event;
    rdma_ack_cm_event(event);
    on_event(copy);
  }
}

void Loop::on_event(const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return need_zero(rdma_resolve_route(event.id, 2000), "rdma_resolve_route");
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      open(event.id);
      return need_zero(rdma_connect(event.id, nullptr), "rdma_connect");
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      open(event.id);
      return need_zero(rdma_accept(event.id, nullptr), "rdma_accept");
    case RDMA_CM_EVENT_ESTABLISHED:
      if (client_) say(*static_cast<Connection*>(event.id->context), "who is there?");
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      close(event.id);
      left_--;
      return;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return;
    default:
      fail(rdma_event_str(event.event), event.status < 0 ? std::strerror(-event.status) : "the peer refuses");
  }
}

/// Opens a connection. The first one makes what all share.
void Loop::open(rdma_cm_id* id) {
  if (pd_ == nullptr) {
    pd_ = need(ibv_alloc_pd(id->verbs), "ibv_alloc_pd");
    channel_ = need(ibv_create_comp_channel(id->verbs), "ibv_create_comp_channel");
    cq_ = need(ibv_create_cq(id->verbs, 1024, nullptr, channel_, 0), "ibv_create_cq");
    need_zero(ibv_req_notify_cq(cq_, 0), "ibv_req_notify_cq");
  }
  auto* const connection = new Connection;
  connection->id = id;
  connection->region = need(ibv_reg_mr(pd_, connection, sizeof *connection, int{IBV_ACCESS_LOCAL_WRITE}), "ibv_reg_mr");
  id->context = connection;
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq_;
  attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  attr.qp_type = IBV_QPT_RC;
  need_zero(rdma_create_qp(id, pd_, &attr), "rdma_create_qp");
  expect(*connection);  // before the peer can send
}

void Loop::close(rdma_cm_id* id) {
  auto* const connection = static_cast<Connection*>(id->context);
  rdma_destroy_qp(id);
  ibv_dereg_mr(connection->region);
  delete connection;
  if (id != first_) rdma_destroy_id(id);
}

void Loop::expect(Connection& connection) {
  ibv_sge sge{reinterpret_cast<uint64_t>(connection.in), sizeof connection.in, connection.region->lkey};
  ibv_recv_wr wr{reinterpret_cast<uint64_t>(&connection), nullptr, &sge, 1};
  ibv_recv_wr* bad = nullptr;
  need_zero(ibv_post_recv(connection.id->qp, &wr, &bad), "ibv_post_recv");
}

void Loop::say(Connection& connection, const char* text) {
  std::snprintf(connection.out, sizeof connection.out, "%s", text);
  ibv_sge sge{reinterpret_cast<uint64_t>(connection.out), sizeof connection.out, connection.region->lkey};
  ibv_send_wr wr{};
  wr.wr_id = reinterpret_cast<uint64_t>(&connection);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  need_zero(ibv_post_send(connection.id->qp, &wr, &bad), "ibv_post_send");
}

/// Asks for the next notification first and looks then, so that none is missed.
void Loop::take_completions() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  need_zero(ibv_get_cq_event(channel_, &cq, &context), "ibv_get_cq_event");
  ibv_ack_cq_events(cq, 1);
  need_zero(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
  ibv_wc wc;
  while (ibv_poll_cq(cq, 1, &wc) > 0) on_completion(wc);
}

void Loop::on_completion(const ibv_wc& wc) {
  if (wc.status == IBV_WC_WR_FLUSH_ERR) return;  // the connection ends: an event says so
  if (wc.status != IBV_WC_SUCCESS) fail("a work request", ibv_wc_status_str(wc.status));
  if (wc.opcode != IBV_WC_RECV) return;
  auto& connection = *reinterpret_cast<Connection*>(wc.wr_id);
  if (!client_) return say(connection, "the server");
  std::printf("%s\n", connection.in);
  need_zero(rdma_disconnect(connection.id), "rdma_disconnect");
}

Loop::~Loop() {
  rdma_destroy_id(first_);
  if (cq_ != nullptr) ibv_destroy_cq(cq_);
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
  if (pd_ != nullptr) ibv_dealloc_pd(pd_);
  rdma_destroy_event_channel(events_);
}

}  // namespace

int main(int argc, char** argv) {
  const char* port = "7471";
  int connections = 1;
  for (int option; (option = getopt(argc, argv, "p:n:")) != -1;) {
    if (option == 'p') port = optarg;
    if (option == 'n') connections = std::max(1, static_cast<int>(std::strtol(optarg, nullptr, 10)));
    if (option == '?') return 2;
  }
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(optind < argc ? argv[optind] : nullptr, port, &hints, &found);
  if (error != 0) fail("getaddrinfo", gai_strerror(error));
  Loop loop(optind < argc, optind < argc ? 1 : connections);
  loop.begin(found);
  freeaddrinfo(found);
  loop.run();
}
