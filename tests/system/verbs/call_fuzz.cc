// The calls that use objects, and the program: call_fuzz [SEED [CALLS]]. Prints the seed first.
#include "call_fuzz.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace call_fuzz {

class User {
 public:
  User(World& world, Random& random, Judge& judge) : world_(world), random_(random), judge_(judge) {}

  void step();

 private:
  ibv_sge element();
  uint64_t remote(uint32_t& rkey);
  void post_send();
  void post_recv();
  void bring_up();
  void bring_up(ibv_qp* qp, uint32_t peer);
  void modify_qp();
  void poll_cq();
  void change_cq();
  void change_srq();
  void reregister();
  void advise();
  void copy();
  void bind();
  void query();
  void import();
  void take_events();

  World& world_;
  Random& random_;
  Judge& judge_;
};

ibv_sge User::element() {
  Object* region = world_.any(Kind::kMr);
  ibv_sge sge{world_.arena() + random_.below(World::kArenaBytes), static_cast<uint32_t>(random_.below(3000)),
              static_cast<uint32_t>(random_.bits())};
  if (region == nullptr) return sge;
  const auto* mr = static_cast<ibv_mr*>(region->handle);
  return {region->base + random_.below(mr->length / 2 + 1), sge.length, mr->lkey};
}

uint64_t User::remote(uint32_t& rkey) {
  const ibv_sge sge = element();
  rkey = sge.lkey;
  return sge.addr;
}

void User::post_send() {
  auto* qp = world_.handle<ibv_qp>(Kind::kQp);
  if (qp == nullptr) return;
  ibv_sge sges[6];
  for (ibv_sge& sge : sges) sge = element();
  ibv_send_wr wr{};
  wr.wr_id = random_.bits();
  wr.sg_list = random_.one_in(50) ? nullptr : sges;
  wr.num_sge = static_cast<int>(random_.below(random_.one_in(4) ? 7 : 2)) - (random_.one_in(50) ? 3 : 0);
  wr.opcode = static_cast<ibv_wr_opcode>(random_.below(12));
  wr.send_flags = static_cast<unsigned>(random_.bits() & 0x1f);
  wr.imm_data = static_cast<uint32_t>(random_.bits());
  if (qp->qp_type == IBV_QPT_UD) {
    wr.wr.ud = {world_.handle<ibv_ah>(Kind::kAh), qp->qp_num, 0x1234};
  } else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic.remote_addr = remote(wr.wr.atomic.rkey) & ~uint64_t{7};
    sges[0].length = 8;
    wr.num_sge = 1;
  } else {
    wr.wr.rdma.remote_addr = remote(wr.wr.rdma.rkey);
  }
  if (wr.opcode == IBV_WR_BIND_MW) {
    Object* region = world_.any(Kind::kMr);
    if (region != nullptr) region->maybe_bound = true;
    wr.bind_mw.mw = world_.handle<ibv_mw>(Kind::kMw);
    wr.bind_mw.rkey = wr.bind_mw.mw != nullptr ? ibv_inc_rkey(wr.bind_mw.mw->rkey) : 0;
    wr.bind_mw.bind_info = {region != nullptr ? static_cast<ibv_mr*>(region->handle) : nullptr,
                            region != nullptr ? region->base : 0, random_.below(100),
                            static_cast<unsigned>(random_.below(64))};
  }
  ibv_send_wr* bad = nullptr;
  Judge::begin();
  judge_.number("ibv_post_send", ibv_post_send(qp, &wr, &bad));
}

void User::post_recv() {
  ibv_sge sges[6];
  for (ibv_sge& sge : sges) sge = element();
  const int count = static_cast<int>(random_.below(random_.one_in(4) ? 7 : 2)) - (random_.one_in(50) ? 1 : 0);
  ibv_recv_wr wr{random_.bits(), nullptr, random_.one_in(50) ? nullptr : sges, count};
  ibv_recv_wr* bad = nullptr;
  Judge::begin();
  if (random_.one_in(3)) {
    auto* srq = world_.handle<ibv_srq>(Kind::kSrq);
    if (srq != nullptr) judge_.number("ibv_post_srq_recv", ibv_post_srq_recv(srq, &wr, &bad));
  } else if (auto* qp = world_.handle<ibv_qp>(Kind::kQp); qp != nullptr) {
    judge_.number("ibv_post_recv", ibv_post_recv(qp, &wr, &bad));
  }
}

/// From RESET to RTS: a pair, or a queue pair connected to itself.
void User::bring_up() {
  auto* qp = world_.handle<ibv_qp>(Kind::kQp);
  auto* peer = world_.handle<ibv_qp>(Kind::kQp);
  if (qp == nullptr || peer == nullptr) return;
  if (peer->qp_type != qp->qp_type) peer = qp;
  bring_up(qp, peer->qp_num);
  if (peer != qp) bring_up(peer, qp->qp_num);
}

void User::bring_up(ibv_qp* qp, uint32_t peer) {
  ibv_qp_attr attr{};
  attr.port_num = 1;
  attr.qkey = 0x1234;
  attr.qp_access_flags = random_.one_in(4) ? static_cast<unsigned>(random_.below(16)) : 15;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer;
  attr.max_dest_rd_atomic = attr.max_rd_atomic = 2;
  attr.timeout = 8;
  attr.retry_cnt = 1;
  attr.rnr_retry = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.sgid_index = 1;
  ibv_query_gid(world_.context(), 1, 1, &attr.ah_attr.grh.dgid);
  const bool rc = qp->qp_type == IBV_QPT_RC;
  const bool ud = qp->qp_type == IBV_QPT_UD;
  const int to_init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
  int to_rtr = IBV_QP_STATE | (ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
  int to_rts = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (rc) to_rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (rc) to_rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  const int masks[] = {IBV_QP_STATE, to_init, to_rtr, to_rts};
  for (int state = IBV_QPS_RESET; state <= IBV_QPS_RTS; state++) {
    attr.qp_state = static_cast<ibv_qp_state>(state);
    Judge::begin();
    judge_.number("ibv_modify_qp", ibv_modify_qp(qp, &attr, masks[state]));
  }
}

void User::modify_qp() {
  auto* qp = world_.handle<ibv_qp>(Kind::kQp);
  if (qp == nullptr) return;
  ibv_qp_attr attr{};
  attr.qp_state = static_cast<ibv_qp_state>(random_.below(8));
  attr.cur_qp_state = static_cast<ibv_qp_state>(random_.below(8));
  attr.port_num = static_cast<uint8_t>(random_.below(3));
  attr.timeout = static_cast<uint8_t>(random_.below(40));
  attr.retry_cnt = static_cast<uint8_t>(random_.below(9));
  attr.en_sqd_async_notify = 1;
  attr.rate_limit = random_.one_in(4) ? 0 : static_cast<uint32_t>(100'000'000 + random_.below(1'000'000'000));
  attr.max_rd_atomic = static_cast<uint8_t>(random_.bits());
  attr.max_dest_rd_atomic = static_cast<uint8_t>(random_.bits());
  int mask = random_.one_in(2) ? IBV_QP_STATE : 0;
  while (random_.one_in(2)) mask |= 1 << random_.below(27);
  Judge::begin();
  judge_.number("ibv_modify_qp, at random", ibv_modify_qp(qp, &attr, mask));
}

void User::poll_cq() {
  auto* cq = world_.handle<ibv_cq>(Kind::kCq);
  if (cq == nullptr) return;
  ibv_wc wc[8];
  const int taken = ibv_poll_cq(cq, static_cast<int>(random_.below(9)), wc);
  for (int i = 0; i < taken; i++) judge_.completed(wc[i].status == IBV_WC_SUCCESS);
  if (taken < 0 || taken > 8) judge_.problem("ibv_poll_cq", "a number that was not asked for", taken);
}

void User::change_cq() {
  auto* cq = world_.handle<ibv_cq>(Kind::kCq);
  if (cq == nullptr) return;
  ibv_modify_cq_attr attr{random_.one_in(10) ? static_cast<uint32_t>(random_.bits()) : uint32_t{IBV_CQ_ATTR_MODERATE},
                          {static_cast<uint16_t>(random_.below(6)), static_cast<uint16_t>(random_.below(300))}};
  Judge::begin();
  switch (random_.below(3)) {
    case 0:
      judge_.number("ibv_resize_cq", ibv_resize_cq(cq, static_cast<int>(random_.below(400)) - 10));
      break;
    case 1:
      judge_.number("ibv_modify_cq", ibv_modify_cq(cq, &attr));
      break;
    default:
      judge_.number("ibv_req_notify_cq", ibv_req_notify_cq(cq, static_cast<int>(random_.below(2))));
  }
}

void User::change_srq() {
  auto* srq = world_.handle<ibv_srq>(Kind::kSrq);
  if (srq == nullptr) return;
  ibv_srq_attr attr{static_cast<uint32_t>(random_.below(80)), 0, static_cast<uint32_t>(random_.below(80))};
  Judge::begin();
  judge_.number("ibv_modify_srq", ibv_modify_srq(srq, &attr, static_cast<int>(random_.below(5))));
}

void User::reregister() {
  Object* region = world_.any(Kind::kMr);
  Object* domain = world_.any_domain();
  if (region == nullptr || domain == nullptr) return;
  const auto flags = static_cast<int>(random_.below(9));
  const uint64_t offset = random_.below(World::kArenaBytes);
  const uint64_t addr = world_.arena() + offset;
  const int access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? static_cast<int>(random_.below(128)) : 0;
  Judge::begin();
  const int error = ibv_rereg_mr(static_cast<ibv_mr*>(region->handle), flags, static_cast<ibv_pd*>(domain->handle),
                                 reinterpret_cast<void*>(addr), random_.below(World::kArenaBytes - offset + 1), access);
  if (error != 0) {
    if (error != IBV_REREG_MR_ERR_INPUT) judge_.problem("ibv_rereg_mr", "an unknown answer", error);
    judge_.pointer("ibv_rereg_mr", static_cast<void*>(nullptr));
    return;
  }
  judge_.number("ibv_rereg_mr", 0);
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) world_.move_to(*region, domain);
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) region->base = addr;
}

void User::advise() {
  Object* domain = world_.any_domain();
  if (domain == nullptr) return;
  ibv_sge sges[3] = {element(), element(), element()};
  const auto advice = static_cast<ibv_advise_mr_advice>(random_.below(random_.one_in(8) ? 4 : 3));
  const auto flags = static_cast<uint32_t>(random_.below(random_.one_in(8) ? 3 : 2));
  const auto count = static_cast<uint32_t>(random_.one_in(4) ? random_.below(4) : 1);
  Judge::begin();
  judge_.number("ibv_advise_mr", ibv_advise_mr(static_cast<ibv_pd*>(domain->handle), advice, flags, sges, count));
}

void User::copy() {
  auto* dm = world_.handle<ibv_dm>(Kind::kDm);
  if (dm == nullptr) return;
  auto* host = reinterpret_cast<void*>(world_.arena());
  const uint64_t offset = random_.below(50000);
  const size_t length = random_.below(50000);
  Judge::begin();
  if (random_.one_in(2)) {
    judge_.number("ibv_memcpy_to_dm", ibv_memcpy_to_dm(dm, offset, host, length));
  } else {
    judge_.number("ibv_memcpy_from_dm", ibv_memcpy_from_dm(host, dm, offset, length));
  }
}

void User::bind() {
  auto* qp = world_.handle<ibv_qp>(Kind::kQp);
  auto* mw = world_.handle<ibv_mw>(Kind::kMw);
  Object* region = world_.any(Kind::kMr);
  if (qp == nullptr || mw == nullptr || region == nullptr || mw->type != IBV_MW_TYPE_1) return;
  auto* mr = static_cast<ibv_mr*>(region->handle);
  if (mr->pd != mw->pd) return;  // the inline function refuses it, and does not set errno
  ibv_mw_bind request{};
  request.send_flags = IBV_SEND_SIGNALED;
  request.bind_info = {mr, region->base, random_.below(200), static_cast<unsigned>(random_.below(64))};
  region->maybe_bound = true;
  Judge::begin();
  judge_.number("ibv_bind_mw", ibv_bind_mw(qp, mw, &request));
}

void User::query() {
  auto* qp = world_.handle<ibv_qp>(Kind::kQp);
  auto* srq = world_.handle<ibv_srq>(Kind::kSrq);
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ibv_srq_attr srq_attr;
  ibv_device_attr_ex device;
  Judge::begin();
  if (qp != nullptr) judge_.number("ibv_query_qp", ibv_query_qp(qp, &attr, -1, &init));
  if (srq != nullptr) judge_.number("ibv_query_srq", ibv_query_srq(srq, &srq_attr));
  judge_.number("ibv_query_device_ex", ibv_query_device_ex(world_.context(), nullptr, &device));
}

void User::import() {
  Object* domain = world_.any(Kind::kPd);
  Object* region = world_.any(Kind::kMr);
  if (domain == nullptr || region == nullptr) return;
  Judge::begin();
  ibv_context* context = judge_.pointer("ibv_import_device", ibv_import_device(dup(world_.context()->cmd_fd)));
  if (context == nullptr) return;
  const uint32_t wrong = random_.one_in(4) ? 1 : 0;
  ibv_pd* pd =
      judge_.pointer("ibv_import_pd", ibv_import_pd(context, static_cast<ibv_pd*>(domain->handle)->handle + wrong));
  if (pd != nullptr) {
    ibv_mr* mr =
        judge_.pointer("ibv_import_mr", ibv_import_mr(pd, static_cast<ibv_mr*>(region->handle)->handle + wrong));
    if (mr != nullptr) ibv_unimport_mr(mr);
    ibv_unimport_pd(pd);
  }
  Judge::begin();
  judge_.number("ibv_close_device", ibv_close_device(context));
}

/// Takes and acknowledges all events, so that none delays a destruction.
void User::take_events() {
  ibv_async_event event;
  while (ibv_get_async_event(world_.context(), &event) == 0) ibv_ack_async_event(&event);
  auto* channel = world_.handle<ibv_comp_channel>(Kind::kChannel);
  if (channel == nullptr) return;
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel, &cq, &context) == 0) ibv_ack_cq_events(cq, 1);
}

void User::step() {
  using Call = void (User::*)();
  constexpr Call kCalls[] = {&User::post_send,  &User::post_send,  &User::post_send, &User::post_recv, &User::post_recv,
                             &User::bring_up,   &User::modify_qp,  &User::poll_cq,   &User::poll_cq,   &User::change_cq,
                             &User::change_srq, &User::reregister, &User::advise,    &User::copy,      &User::bind,
                             &User::query,      &User::take_events};
  const uint64_t pick = random_.below(std::size(kCalls) * 3 / 2);
  if (pick < std::size(kCalls)) return (this->*kCalls[pick])();
  if (random_.one_in(100)) return import();
  if (random_.one_in(4)) return world_.destroy_one();
  // Few domains and many regions, so that most of what is used together belongs together.
  constexpr Kind kMade[] = {Kind::kMr,  Kind::kMr, Kind::kMr, Kind::kMr,     Kind::kMr, Kind::kMw,
                            Kind::kMw,  Kind::kQp, Kind::kQp, Kind::kQp,     Kind::kQp, Kind::kCq,
                            Kind::kSrq, Kind::kAh, Kind::kDm, Kind::kChannel};
  if (random_.one_in(12)) return world_.make(static_cast<Kind>(random_.below(kKinds)));
  world_.make(kMade[random_.below(std::size(kMade))]);
}

}  // namespace call_fuzz

int main(int argc, char** argv) {
  using namespace call_fuzz;
  const uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : static_cast<uint64_t>(std::time(nullptr));
  const uint64_t steps = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 20000;
  std::printf("seed %llu, %llu steps\n", static_cast<unsigned long long>(seed), static_cast<unsigned long long>(steps));
  std::fflush(stdout);
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_context* context = list != nullptr ? ibv_open_device(list[0]) : nullptr;
  if (context == nullptr) return 1;
  ibv_free_device_list(list);
  fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
  Random random(seed);
  Judge judge;
  World world(context, random, judge);
  User user(world, random, judge);
  for (uint64_t i = 0; i < steps && judge.problems() < 10; i++) user.step();
  world.destroy_all();
  if (ibv_close_device(context) != 0) judge.problem("ibv_close_device", "failed", errno);
  judge.sum_up();
  std::printf("%llu calls, %llu problems\n", static_cast<unsigned long long>(judge.calls()),
              static_cast<unsigned long long>(judge.problems()));
  return judge.problems() == 0 ? 0 : 1;
}
