#include "verbs_model/engine_machine.h"

#include "engine/address_table.h"
#include "engine/bring_up.h"
#include "engine/neighbours.h"
#include "engine/object_tables.h"
#include "transport/address_handle.h"
#include "transport/memory_table.h"
#include "transport/qp_init.h"
#include "transport/receive_queue.h"

namespace uroce::model {

namespace {

constexpr Duration kSettleTime = milliseconds(25);   // all retries take less than 8 ms
constexpr Duration kStormyTime = milliseconds(200);  // where each answer may be lost several times
constexpr uint8_t kRnrTimer = 12;                    // 640 us

}  // namespace

void EngineMachine::add_host(unsigned number) {
  EngineConfig config = sim::simple_config(static_cast<uint8_t>(number + 1));
  SeededRandom random(program_.seed * 8 + number);
  config.max_qps = 16;
  config.max_regions = 32;
  config.reorder_packets = 1 + random.below(64);
  constexpr uint32_t kWindowSizes[] = {1, 2, 8, 16, 128};
  config.window_packets = kWindowSizes[random.below(5)];
  config.ack_delay = microseconds(random.below(2) == 0 ? 0 : 20);
  config.grant_credits = random.below(4) != 0;
  const Endpoint& spec = program_.endpoints[number];
  config.congestion.algorithm = spec.congestion;
  config.congestion.link_bits_per_second = 100'000'000'000;
  config.congestion.dcqcn.rpg_min_rate = 1000;  // at lower rates a run takes long even in virtual time
  if (spec.obeys_pauses) config.pfc.lossless = 0xff;
  One one;
  one.host = &world_.add_host(config);
  one.host->set_turn_delay(nanoseconds(random.below(4) == 0 ? random.below(3000) : 0));
  if (spec.turn_ns != 0) one.host->set_turn_delay(nanoseconds(spec.turn_ns));
  one.host->port().connect(hub_);
  if (random.below(5) == 0) one.usual_tx_room = 1 + random.below(8);
  one.host->port().set_tx_room(one.usual_tx_room);
  one.host->port().set_rx_frames(spec.rx_frames);
  one.checker = std::make_unique<TraceChecker>(verdict_);
  sim::LinkConfig cable;
  cable.delay = microseconds(1 + random.below(3));
  hub_.ways.push_back(&world_.add_link(one.host->port(), cable));
  hosts_.push_back(std::move(one));
}

void EngineMachine::make_objects(unsigned endpoint) {
  One& one = hosts_[endpoint];
  const Endpoint& spec = program_.endpoints[endpoint];
  one.engine().set_capture(traces_.empty() ? static_cast<Capture*>(one.checker.get()) : traces_[endpoint].get());
  for (unsigned other = 0; other < program_.endpoints.size(); other++) {
    const EngineConfig peer = sim::simple_config(static_cast<uint8_t>(other + 1));
    for (const auto& address : peer.addresses) {
      if (other != endpoint) one.engine().neighbours().set_static(address.ip, 0, peer.mac);
    }
  }
  one.pd = one.engine().objects().allocate_pd();
  one.foreign_pd = one.engine().objects().allocate_pd();
  for (unsigned i = 0; i < 2; i++) one.cqs[i] = one.engine().objects().create_cq(spec.cq_entries[i], nullptr);
  if (spec.srq_wrs != 0) {
    one.srq = one.engine().objects().create_srq(one.pd, spec.srq_wrs, 4, nullptr);
    one.srq->set_limit(spec.srq_limit);
  }
  for (unsigned region = 0; region < kRegions; region++) register_region(endpoint, static_cast<Region>(region));
  for (unsigned window = kRegions; window < kRegions + kWindows; window++) {
    const bool old = static_cast<Region>(window) == Region::kOldWindow;
    one.keys[window] = one.engine().memory().allocate_window(one.pd, !old);
  }
  const bool datagrams =
      std::any_of(program_.qps.begin(), program_.qps.end(), [](const QueuePair& qp) { return qp.type == QpType::kUd; });
  for (unsigned to = 0; datagrams && to < program_.endpoints.size(); to++) {
    for (unsigned version = 0; version < 2; version++) {
      AddressVector av;
      av.sgid_index = static_cast<uint8_t>(1 + version);
      av.dgid = sim::simple_config(static_cast<uint8_t>(to + 1)).addresses[version].ip;
      one.ahs[version][to] = one.engine().create_ah(one.pd, av, one.host->now());
    }
  }
}

void EngineMachine::register_region(unsigned endpoint, Region region) {
  One& one = hosts_[endpoint];
  constexpr uint32_t kAccess[kRegions] = {0,           sim::kAllAccess, kRemoteRead | kMwBind, sim::kAllAccess,
                                          kLocalWrite, sim::kAllAccess};
  uint8_t* memory = memory_.start(endpoint, region);
  one.keys[static_cast<unsigned>(region)] = one.engine().memory().register_region(
      region == Region::kForeign ? one.foreign_pd : one.pd, memory, Memory::size(region),
      reinterpret_cast<uint64_t>(memory), kAccess[static_cast<unsigned>(region)]);
}

Qp* EngineMachine::make_qp(unsigned qp) {
  const QueuePair& spec = program_.qps[qp];
  QpInit init;
  init.type = spec.type;
  init.pd = host(qp).pd;
  init.send_cq = host(qp).cqs[spec.send_cq];
  init.recv_cq = host(qp).cqs[spec.recv_cq];
  init.srq = spec.srq ? host(qp).srq : nullptr;
  init.cap = {spec.send_wrs, spec.recv_wrs, spec.sges, spec.sges, spec.inline_bytes};
  init.sq_sig_all = spec.signal_all;
  init.loss_recovery = spec.recovery;
  Qp* const made = engine(qp).create_qp(init, nullptr);
  require(made != nullptr, "create_qp");
  return made;
}

/// Both are in RESET.
bool EngineMachine::connect(unsigned qp) {
  const uint32_t connection = ++connections_[qp / 2];
  bool good = true;
  for (const unsigned each : {qp, qp ^ 1}) {
    const QueuePair& spec = program_.qps[each];
    QpAttributes attributes;
    attributes.access = spec.access | kFlushGlobal;
    attributes.path_mtu_bytes = spec.mtu;
    attributes.timeout = kTimeout;
    attributes.retry_cnt = spec.retries;
    attributes.rnr_retry = spec.rnr_retries;
    attributes.min_rnr_timer = kRnrTimer;
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = spec.reads;
    attributes.qkey = kEngineQkey;
    attributes.dest_qpn = qpns_[each ^ 1];
    // The first connection's PSNs soon wrap, in one direction or (every second seed) in both. Packets of the previous
    // connection are further behind than anything in flight: other devices rely on TIME WAIT, and packets ahead would
    // be held until their turn.
    const uint32_t apart = program_.seed % 2 == 0 ? 0x80000u : 0xFFFFA0u;
    const auto psn = [connection, apart](unsigned side) {
      return Psn(0xFFFFF8u + (connection - 1) * 0x200000u + side * apart);
    };
    attributes.sq_psn = psn(each & 1);
    attributes.rq_psn = psn(~each & 1);
    attributes.av.sgid_index = spec.ipv6 ? 2 : 1;
    attributes.av.dgid = *address(each ^ 1);
    host(each).checker->forget(qpns_[each ^ 1]);
    good &= bring_up(engine(each), *qps_[each], attributes, QpState::kRts, host(each).host->now()) == ModifyResult::kOk;
  }
  return good;
}

void EngineMachine::set_faults() {
  uint32_t with = 0;
  for (const Fault& fault : program_.faults) {
    const std::string error = fabric::parse_impairments(fault.text, cables_[fault.endpoint]);
    require(error.empty(), fault.text.c_str());
    with |= 1u << fault.endpoint;
  }
  for (unsigned i = 0; i < hosts_.size(); i++) {
    if ((with >> i & 1) != 0) hub_.ways[i]->set_impairments(cables_[i]);
  }
  const bool stormy = std::any_of(program_.faults.begin(), program_.faults.end(),
                                  [](const Fault& f) { return f.unlimited() || f.random(); });
  settle_time_ = stormy ? kStormyTime : kSettleTime;
}

/// Whether a flushed bind was executed is not known: the window has one key or the other.
bool EngineMachine::free_window(unsigned endpoint, Region window) {
  MemoryTable& memory = hosts_[endpoint].engine().memory();
  const uint32_t known = key(endpoint, window);
  return memory.free_window(known) || memory.free_window(next_key(known));
}

bool EngineMachine::free_rest() {
  bool good = true;
  for (One& one : hosts_) {
    for (unsigned region = 0; region < kRegions; region++) one.engine().memory().deregister(one.keys[region]);
    good &= one.engine().memory().in_use() == 0;
    for (CompletionQueue* cq : one.cqs) good &= one.engine().objects().destroy_cq(cq);
    if (one.srq != nullptr) good &= one.engine().objects().destroy_srq(one.srq);
    one.forget_handles();
    good &= one.engine().objects().deallocate_pd(one.pd) && one.engine().objects().deallocate_pd(one.foreign_pd);
  }
  return good;
}

void EngineMachine::One::forget_handles() {
  for (auto& all : ahs) {
    for (auto& ah : all) {
      if (ah) engine().destroy_ah(ah.get());
      ah.reset();
    }
  }
}

void EngineMachine::calm() {
  for (const One& one : hosts_) {
    one.host->port().set_tx_room(one.usual_tx_room);
    one.host->port().set_out_of_buffers(false);
  }
  for (unsigned i = 0; i < hosts_.size(); i++) {
    if ((cut_ >> i & 1) != 0) hub_.ways[i]->set_impairments(cables_[i]);
  }
  cut_ = 0;
}

void EngineMachine::befall(const Step& step) {
  const One& one = hosts_[step.endpoint];
  switch (step.what) {
    case Do::kLeap:
      return one.host->leap(nanoseconds(step.count));
    case Do::kTxRoom:
      return one.host->port().set_tx_room(step.count);
    case Do::kBuffers:
      return one.host->port().set_out_of_buffers(step.count == 0);
    case Do::kCut:
      return cut(step.endpoint, step.count == 0);
    case Do::kSpoof:
      return spoof(step.qp, step.count);
    case Do::kVanish:
      return vanish(step.qp);
    default:
      return restart(step.endpoint, step.count != 0);
  }
}

void EngineMachine::cut(unsigned endpoint, bool off) {
  fabric::ImpairmentConfig nothing_arrives;
  nothing_arrives.loss = 1;
  hub_.ways[endpoint]->set_impairments(off ? nothing_arrives : cables_[endpoint]);
  cut_ = off ? cut_ | 1u << endpoint : cut_ & ~(1u << endpoint);
}

void EngineMachine::spoof(unsigned qp, uint32_t count) {
  const Qp* const victim = qps_[qp];
  const Qp* const peer = qps_[qp ^ 1];
  const auto stands = [](const Qp* each) { return each != nullptr && each->state() == QpState::kRts; };
  if (!stands(victim) || !stands(peer)) return;
  const One& one = host(qp);
  const Prey prey{reinterpret_cast<uint64_t>(memory_.target(program_.qps[qp].endpoint)), kTargetBytes,
                  one.keys[static_cast<unsigned>(Region::kTarget)]};
  for (; count > 0; count--) spoofer_.forge(*one.host, *victim, *peer, prey);
}

void EngineMachine::vanish(unsigned qp) {
  host(qp ^ 1).checker->forget(qpns_[qp]);
  destroy(qp);
  qps_[qp] = make_qp(qp);
  qpns_[qp] = qps_[qp]->qpn();
}

void EngineMachine::restart(unsigned endpoint, bool same_numbers) {
  hosts_[endpoint].forget_handles();
  hosts_[endpoint].host->restart_engine(same_numbers);
  make_objects(endpoint);
  for (unsigned qp = 0; qp < qps_.size(); qp++) {
    if (program_.qps[qp].endpoint != endpoint || qps_[qp] == nullptr) continue;
    host(qp ^ 1).checker->forget(qpns_[qp]);
    qps_[qp] = make_qp(qp);
    qpns_[qp] = qps_[qp]->qpn();
  }
}

std::unique_ptr<Machine> engines(const Program& program, Memory& memory, Frames frames) {
  auto machine = std::make_unique<EngineMachine>(program, memory);
  if (frames == Frames::kShown) machine->show_frames();
  return machine;
}

std::string run_on_engines(const Program& program, const Rules& rules, Totals* totals, Frames frames) {
  thread_local Memory memory(4);
  memory.prepare();
  EngineMachine machine(program, memory);
  if (frames == Frames::kShown) machine.show_frames();
  return run_on(program, rules, machine, memory, totals);
}

}  // namespace uroce::model
