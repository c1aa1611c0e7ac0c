// Multicast: datagrams to every program that has joined a group.
//
//   multicast [-n COUNT] GROUP        receiver: prints COUNT datagrams (5), and ends
//   multicast [-n COUNT] -s GROUP     sender
//
// GROUP is an address such as 239.1.2.3. Lost datagrams are not repeated, and a receiver that joins late misses earlier
// ones.
#include <netdb.h>
#include <rdma/rdma_verbs.h>
#include <unistd.h>

#include <algorithm>

#include "check.h"

namespace {

using examples::fail;
using examples::need;
using examples::need_zero;

constexpr size_t kRouteBytes = 40;  // a receive begins with room for the GRH, which says where the datagram is from
constexpr size_t kTextBytes = 64;
constexpr int kReceives = 64;  // datagrams that can come before one is looked at

using Events = std::unique_ptr<rdma_event_channel, examples::Calls<rdma_destroy_event_channel>>;
using Id = std::unique_ptr<rdma_cm_id, examples::Calls<rdma_destroy_id>>;
using Region = std::unique_ptr<ibv_mr, examples::Calls<rdma_dereg_mr>>;
using AddressHandle = std::unique_ptr<ibv_ah, examples::Calls<ibv_destroy_ah>>;

// A sender does not hear whether its receivers keep up, so it leaves them time.
constexpr useconds_t kPeriodUs = 100'000;

struct Datagram {
  char route[kRouteBytes];
  char text[kTextBytes];
};

/// A queue pair that is in a group.
class Member {
 public:
  explicit Member(sockaddr* group);
  ~Member() {
    rdma_leave_multicast(id_.get(), group_);
    rdma_destroy_qp(id_.get());
  }
  void send(int count);
  void receive(int count);

 private:
  rdma_ud_param wait_for(rdma_cm_event_type expected);
  void expect(Datagram& datagram) {
    need_zero(rdma_post_recv(id_.get(), &datagram, &datagram, sizeof datagram, region_.get()), "rdma_post_recv");
  }

  const Events events_{need(rdma_create_event_channel(), "rdma_create_event_channel")};
  sockaddr* const group_;
  Id id_;
  Datagram datagrams_[kReceives];
  Region region_;
  AddressHandle to_group_;
  rdma_ud_param address_{};
};

/// Waits for the event, and returns what it says of the group, if anything.
rdma_ud_param Member::wait_for(rdma_cm_event_type expected) {
  rdma_cm_event* event = nullptr;
  need_zero(rdma_get_cm_event(events_.get(), &event), "rdma_get_cm_event");
  if (event->event != expected) fail(rdma_event_str(event->event), std::strerror(std::abs(event->status)));
  const rdma_ud_param param = event->param.ud;
  rdma_ack_cm_event(event);
  return param;
}

/// Resolving the group's address finds the device by which it can be reached. The queue pair is ready when it exists:
/// datagrams need no connection.
Member::Member(sockaddr* group) : group_(group) {
  rdma_cm_id* id = nullptr;
  need_zero(rdma_create_id(events_.get(), &id, nullptr, RDMA_PS_UDP), "rdma_create_id");
  id_.reset(id);
  need_zero(rdma_resolve_addr(id, nullptr, group, 2000), "rdma_resolve_addr");
  wait_for(RDMA_CM_EVENT_ADDR_RESOLVED);
  ibv_qp_init_attr attr{};
  attr.cap = {.max_send_wr = 1, .max_recv_wr = kReceives, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  attr.qp_type = IBV_QPT_UD;
  attr.sq_sig_all = 1;
  need_zero(rdma_create_qp(id, nullptr, &attr), "rdma_create_qp");
  region_.reset(need(rdma_reg_msgs(id, datagrams_, sizeof datagrams_), "rdma_reg_msgs"));
  for (Datagram& datagram : datagrams_) expect(datagram);
  need_zero(rdma_join_multicast(id, group, nullptr), "rdma_join_multicast");
  address_ = wait_for(RDMA_CM_EVENT_MULTICAST_JOIN);
}

/// A datagram needs an address handle, a queue pair number that means the group, and a key that all its members have.
void Member::send(int count) {
  to_group_.reset(need(ibv_create_ah(id_->pd, &address_.ah_attr), "ibv_create_ah"));
  Datagram& out = datagrams_[0];
  for (int i = 1; i <= count; i++) {
    std::snprintf(out.text, sizeof out.text, "datagram %d of %d", i, count);
    ibv_sge sge{reinterpret_cast<uint64_t>(out.text), sizeof out.text, region_->lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud = {to_group_.get(), address_.qp_num, address_.qkey};
    ibv_send_wr* bad = nullptr;
    need_zero(ibv_post_send(id_->qp, &wr, &bad), "ibv_post_send");
    ibv_wc wc;
    if (rdma_get_send_comp(id_.get(), &wc) != 1) fail("rdma_get_send_comp", std::strerror(errno));
    if (wc.status != IBV_WC_SUCCESS) fail("sending a datagram", ibv_wc_status_str(wc.status));
    usleep(kPeriodUs);
  }
  std::printf("sent %d datagrams\n", count);
}

void Member::receive(int count) {
  std::printf("joined the group\n");
  std::fflush(stdout);
  for (int i = 0; i < count; i++) {
    ibv_wc wc;
    if (rdma_get_recv_comp(id_.get(), &wc) != 1) fail("rdma_get_recv_comp", std::strerror(errno));
    if (wc.status != IBV_WC_SUCCESS) fail("receiving a datagram", ibv_wc_status_str(wc.status));
    auto& in = *reinterpret_cast<Datagram*>(wc.wr_id);
    std::printf("%.*s\n", static_cast<int>(kTextBytes), in.text);
    expect(in);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int count = 5;
  bool sends = false;
  for (int option; (option = getopt(argc, argv, "n:s")) != -1;) {
    if (option == 'n') count = std::max(1, static_cast<int>(std::strtol(optarg, nullptr, 10)));
    if (option == 's') sends = true;
    if (option == '?') return 2;
  }
  if (optind >= argc) fail("multicast", "which group? An address such as 239.1.2.3");
  addrinfo* found = nullptr;
  const int error = getaddrinfo(argv[optind], nullptr, nullptr, &found);
  if (error != 0) fail("getaddrinfo", gai_strerror(error));
  {
    Member member(found->ai_addr);
    sends ? member.send(count) : member.receive(count);
  }
  freeaddrinfo(found);
}
