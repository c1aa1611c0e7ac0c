#include "verbs_model/shim/verbs_machine.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/random.h"
#include "verbs_model/run.h"

namespace uroce::model {

namespace {

constexpr uint8_t kTimeout = 6;    // 262 us; the wait for an answer is four times that at most
constexpr uint8_t kRnrTimer = 12;  // 640 us

// A queue pair that has something to do sends a packet within 1.1 ms. One that asks for a receive again and again never
// ends; everything else needs 8 ms at most.
constexpr Duration kQuiet = milliseconds(4);
constexpr Duration kSettleMost = milliseconds(25);
constexpr Duration kLook = microseconds(400);  // between looks at the counter of packets
// The most that a turn counts for: when another process has the CPU, that time does not count.
constexpr Duration kTurnMost = microseconds(50);

void require(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::abort();
}

unsigned window_number(Region region) { return static_cast<unsigned>(region) - kRegions; }

}  // namespace

Manner manner_of(const Program& program) {
  SeededRandom random(program.seed * 3 + 1);
  return {.builds = random.below(2) == 0,
          .extended = random.below(2) == 0,
          .sleeps = random.below(3) == 0,
          .events = random.below(3) == 0};
}

/// The wire is inside the device and cannot be cut. A peer may only be waiting for a CPU: no counted retries.
Limits limits() { return {.faults = false, .few_retries = false, .placements = false}; }

Rules rules_of(const Program& program) {
  return {.times = manner_of(program).extended, .arrival = false, .rest = false};
}

VerbsMachine::VerbsMachine(const Program& program, Memory& memory, Device& device)
    : program_(program),
      memory_(memory),
      device_(device),
      manner_(manner_of(program)),
      ends_(program.endpoints.size()) {
  for (unsigned i = 0; i < ends_.size(); i++) make_objects(i);
  for (unsigned qp = 0; qp < program.qps.size(); qp++) make_qp(qp);
  for (unsigned qp = 0; qp < program.qps.size(); qp += 2) require(connect(qp), "connect");
  moment_ = device_.now();
}

VerbsMachine::~VerbsMachine() {
  for (unsigned qp = 0; qp < qps_.size(); qp++) {
    if (qps_[qp] != nullptr) destroy(qp);
  }
  for (unsigned endpoint = 0; endpoint < ends_.size(); endpoint++) {
    for (unsigned window = kRegions; window < kRegions + kWindows; window++) {
      free_window(endpoint, static_cast<Region>(window));
    }
  }
  free_rest();
}

void VerbsMachine::make_cq(End& one, unsigned number, uint32_t entries) {
  Queue& queue = one.cqs[number];
  if (manner_.extended) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = entries;
    attr.channel = one.channel;
    attr.wc_flags = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    queue.extended = ibv_create_cq_ex(device_.context(), &attr);
    require(queue.extended != nullptr, "ibv_create_cq_ex");
    queue.cq = ibv_cq_ex_to_cq(queue.extended);
  } else {
    queue.cq = ibv_create_cq(device_.context(), static_cast<int>(entries), nullptr, one.channel, 0);
    require(queue.cq != nullptr, "ibv_create_cq");
  }
  require(queue.cq->cqe == static_cast<int>(entries), "a completion queue of the size that was asked for");
}

void VerbsMachine::make_objects(unsigned endpoint) {
  End& one = ends_[endpoint];
  const Endpoint& spec = program_.endpoints[endpoint];
  one.pd = ibv_alloc_pd(device_.context());
  one.foreign_pd = ibv_alloc_pd(device_.context());
  require(one.pd != nullptr && one.foreign_pd != nullptr, "ibv_alloc_pd");
  if (manner_.events) {
    one.channel = ibv_create_comp_channel(device_.context());
    require(one.channel != nullptr && fcntl(one.channel->fd, F_SETFL, O_NONBLOCK) == 0, "ibv_create_comp_channel");
  }
  for (unsigned i = 0; i < 2; i++) make_cq(one, i, spec.cq_entries[i]);
  if (spec.srq_wrs != 0) {
    ibv_srq_init_attr attr{};
    attr.attr = {spec.srq_wrs, 4, 0};
    one.srq = ibv_create_srq(one.pd, &attr);
    require(one.srq != nullptr && attr.attr.max_wr == spec.srq_wrs, "ibv_create_srq");
    attr.attr.srq_limit = spec.srq_limit;
    require(ibv_modify_srq(one.srq, &attr.attr, IBV_SRQ_LIMIT) == 0, "ibv_modify_srq");
  }
  for (unsigned region = 0; region < kRegions; region++) register_region(endpoint, static_cast<Region>(region));
  for (unsigned window = 0; window < kWindows; window++) {
    const bool old = window == window_number(Region::kOldWindow);
    one.mws[window] = ibv_alloc_mw(one.pd, old ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
    require(one.mws[window] != nullptr, "ibv_alloc_mw");
  }
  ibv_ah_attr address = device_.own_address();
  one.ah = ibv_create_ah(one.pd, &address);
  require(one.ah != nullptr, "ibv_create_ah");
}

void VerbsMachine::make_qp(unsigned qp) {
  const QueuePair& spec = program_.qps[qp];
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = static_cast<ibv_qp_type>(spec.type);
  attr.send_cq = end(qp).cqs[spec.send_cq].cq;
  attr.recv_cq = end(qp).cqs[spec.recv_cq].cq;
  attr.srq = spec.srq ? end(qp).srq : nullptr;
  attr.cap = {spec.send_wrs, spec.recv_wrs, spec.sges, spec.sges, spec.inline_bytes};
  attr.sq_sig_all = spec.signal_all ? 1 : 0;
  attr.pd = end(qp).pd;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  if (manner_.builds) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = operations_of(spec.type);
  }
  ibv_qp* made = ibv_create_qp_ex(device_.context(), &attr);
  require(made != nullptr, "ibv_create_qp");
  const bool exact = attr.cap.max_send_wr == spec.send_wrs && attr.cap.max_inline_data == spec.inline_bytes &&
                     (spec.srq || attr.cap.max_recv_wr == spec.recv_wrs);
  require(exact, "a queue pair of the size that was asked for");
  qps_.push_back(made);
  qpns_.push_back(made->qp_num);
}

QpState VerbsMachine::state(unsigned qp) const {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  require(ibv_query_qp(qps_[qp], &attr, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
  return static_cast<QpState>(attr.qp_state);
}

bool VerbsMachine::modify(unsigned qp, QpState to) {
  ibv_qp_attr attr{};
  attr.qp_state = static_cast<ibv_qp_state>(to);
  return ibv_modify_qp(qps_[qp], &attr, IBV_QP_STATE) == 0;
}

bool VerbsMachine::connect(unsigned qp) {
  connections_++;
  const bool first = bring_up(qp);
  return bring_up(qp ^ 1) && first;
}

/// From RESET.
bool VerbsMachine::bring_up(unsigned qp) {
  const QueuePair& spec = program_.qps[qp];
  const bool reliable = spec.type == QpType::kRc;
  const bool datagrams = spec.type == QpType::kUd;
  // The first PSN soon wraps.
  const auto psn = [this](unsigned side) {
    return (0xFFFFF8u + (connections_ - 1) * 0x200000u + side * 0x80000u) & 0xFFFFFFu;
  };
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = spec.access;
  attr.qkey = kQkey;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
  if (ibv_modify_qp(qps_[qp], &attr, mask) != 0) return false;
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(__builtin_ctz(spec.mtu) - 7);
  attr.dest_qp_num = qpns_[qp ^ 1];
  attr.rq_psn = psn(~qp & 1);
  attr.max_dest_rd_atomic = spec.reads;
  attr.min_rnr_timer = kRnrTimer;
  attr.ah_attr = device_.own_address();
  mask = IBV_QP_STATE;
  if (!datagrams) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (reliable) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (ibv_modify_qp(qps_[qp], &attr, mask) != 0) return false;
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = psn(qp & 1);
  attr.timeout = kTimeout;
  attr.retry_cnt = spec.retries;
  attr.rnr_retry = spec.rnr_retries;
  attr.max_rd_atomic = spec.reads;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (reliable) mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return ibv_modify_qp(qps_[qp], &attr, mask) == 0;
}

void VerbsMachine::destroy(unsigned qp) {
  require(ibv_destroy_qp(qps_[qp]) == 0, "ibv_destroy_qp");
  qps_[qp] = nullptr;
}

void VerbsMachine::take_events() {
  for (ibv_async_event event; device_.take_event(event);) {
    if (event.event_type != IBV_EVENT_CQ_ERR) continue;
    for (End& one : ends_) {
      for (Queue& queue : one.cqs) queue.overrun |= queue.cq == event.element.cq;
    }
  }
}

void VerbsMachine::complain(const std::string& text) {
  if (complaint_.empty()) complaint_ = text;
}

void VerbsMachine::take_cq_events(End& one) {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(one.channel, &cq, &context) == 0) {
    ibv_ack_cq_events(cq, 1);
    for (Queue& queue : one.cqs) {
      if (queue.cq != cq) continue;
      if (!queue.armed || queue.told) complain("a completion queue raised an event that it was not armed for");
      queue.told = true;
    }
  }
}

/// Whatever is in an armed queue must have raised an event. A queue is armed again once it was found empty after that:
/// a program that arms it earlier was told of its completions, and is not told again.
void VerbsMachine::note_events(End& one, Queue& queue, uint32_t polled) {
  const bool waits = queue.armed && !queue.told;
  take_cq_events(one);
  if (polled != 0 && queue.armed && !queue.told) complain("a completion came without an event");
  if (polled != 0 || waits) return;
  queue.armed = true;
  queue.told = false;
  require(ibv_req_notify_cq(queue.cq, 0) == 0, "ibv_req_notify_cq");
}

/// Sleeps, but handles events when they come.
void VerbsMachine::wait_for_events(Duration time) {
  const Instant end = device_.now() + time;
  std::vector<pollfd> fds;
  for (const End& one : ends_) fds.push_back({one.channel->fd, POLLIN, 0});
  for (Instant at = device_.now(); at < end; at = device_.now()) {
    const Duration left = end - at;
    const timespec timeout{left.ns / 1'000'000'000, left.ns % 1'000'000'000};
    if (ppoll(fds.data(), fds.size(), &timeout, nullptr) <= 0) continue;
    for (End& one : ends_) take_cq_events(one);
  }
}

void VerbsMachine::register_region(unsigned endpoint, Region region) {
  constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
  constexpr int kAccess[kRegions] = {
      0, kAll, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND, kAll, IBV_ACCESS_LOCAL_WRITE, kAll};
  End& one = ends_[endpoint];
  const auto number = static_cast<unsigned>(region);
  one.mrs[number] = ibv_reg_mr(region == Region::kForeign ? one.foreign_pd : one.pd, memory_.start(endpoint, region),
                               Memory::size(region), kAccess[number]);
  require(one.mrs[number] != nullptr, "ibv_reg_mr");
  one.keys[number] = one.mrs[number]->lkey;
}

bool VerbsMachine::deregister(unsigned endpoint, Region region) {
  ibv_mr*& mr = ends_[endpoint].mrs[static_cast<unsigned>(region)];
  if (ibv_dereg_mr(mr) != 0) return false;
  mr = nullptr;
  return true;
}

uint32_t VerbsMachine::key(unsigned endpoint, Region region) const {
  const End& one = ends_[endpoint];
  return is_window(region) ? one.mws[window_number(region)]->rkey : one.keys[static_cast<unsigned>(region)];
}

void VerbsMachine::begin_bind(unsigned endpoint, Region window, MwBind& bind) {
  binding_ = ends_[endpoint].mws[window_number(window)];
  bind.new_rkey = ibv_inc_rkey(binding_->rkey);
}

/// For type 2 the program keeps the key, for type 1 ibv_bind_mw does.
void VerbsMachine::end_bind(unsigned endpoint, Region window) {
  ibv_mw* const mw = ends_[endpoint].mws[window_number(window)];
  if (mw->type == IBV_MW_TYPE_2) mw->rkey = ibv_inc_rkey(mw->rkey);
}

bool VerbsMachine::free_window(unsigned endpoint, Region window) {
  ibv_mw*& mw = ends_[endpoint].mws[window_number(window)];
  const bool good = mw == nullptr || ibv_dealloc_mw(mw) == 0;
  mw = nullptr;
  return good;
}

bool VerbsMachine::free_rest() {
  bool good = true;
  for (End& one : ends_) {
    for (ibv_mr* mr : one.mrs) good &= mr == nullptr || ibv_dereg_mr(mr) == 0;
    for (Queue& queue : one.cqs) good &= ibv_destroy_cq(queue.cq) == 0;
    good &= one.channel == nullptr || ibv_destroy_comp_channel(one.channel) == 0;
    good &= one.srq == nullptr || ibv_destroy_srq(one.srq) == 0;
    good &= ibv_destroy_ah(one.ah) == 0;
    good &= ibv_dealloc_pd(one.pd) == 0 && ibv_dealloc_pd(one.foreign_pd) == 0;
  }
  ends_.clear();
  return good;
}

void VerbsMachine::run(Duration time) {
  const Instant end = device_.now() + time;
  if (manner_.sleeps && manner_.events) {
    wait_for_events(time);
  } else if (manner_.sleeps) {
    const timespec pause{time.ns / 1'000'000'000, time.ns % 1'000'000'000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
  } else {
    while (device_.now() < end) device_.turn();
  }
}

bool VerbsMachine::settle() {
  if (manner_.sleeps) run(milliseconds(3));
  int64_t all = 0;
  int64_t quiet = 0;
  int64_t since_look = 0;
  uint64_t packets = device_.packets();
  Instant last = device_.now();
  while (all < kSettleMost.ns && quiet < kQuiet.ns) {
    device_.turn();
    const Instant at = device_.now();
    const int64_t step = std::min(at - std::exchange(last, at), kTurnMost).ns;
    all += step;
    quiet += step;
    since_look += step;
    if (since_look < kLook.ns) continue;
    since_look = 0;
    const uint64_t before = std::exchange(packets, device_.packets());
    if (packets != before) quiet = 0;
  }
  return quiet >= kQuiet.ns;
}

std::string run_on_verbs(const Program& program, const Rules& rules, Totals* totals) {
  static Memory memory(4);
  memory.prepare();
  VerbsMachine machine(program, memory, Device::get());
  const std::string failure = run_on(program, rules, machine, memory, totals);
  return failure.empty() ? machine.complaint() : failure;
}

}  // namespace uroce::model
