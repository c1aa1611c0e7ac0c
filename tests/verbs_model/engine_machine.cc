// Engines in virtual time, joined by a hub: a cable from it to each of them, with the program's faults.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "engine/address_table.h"
#include "engine/bring_up.h"
#include "engine/neighbours.h"
#include "sim/testbed.h"
#include "sim/trace.h"
#include "verbs_model/run.h"

namespace uroce::model {

namespace {

constexpr uint64_t kEventsMax = 400'000;            // of one program; a long one has 20,000
constexpr Duration kSettleTime = milliseconds(25);  // all retries take less than 8 ms
constexpr uint8_t kTimeout = 6;                     // 262 us
constexpr uint8_t kRnrTimer = 12;                   // 640 us
constexpr uint32_t kQkey = 0x11111111;

/// The last byte of a MAC address is the number of the host, from 1.
class Hub final : public sim::FrameSink {
 public:
  std::vector<sim::Link*> ways;
  void deliver(sim::Frame&& frame) override {
    const unsigned host = frame.data()[5];
    if (host - 1 < ways.size()) ways[host - 1]->deliver(std::move(frame));
  }
};

class EngineMachine final : public Machine {
 public:
  EngineMachine(const Program& program, Memory& memory) : program_(program), memory_(memory), world_(program.seed) {
    hub_.ways.reserve(program.endpoints.size());
    for (unsigned i = 0; i < program.endpoints.size(); i++) add_host(i);
    for (unsigned i = 0; i < program.endpoints.size(); i++) make_objects(i);
    for (unsigned qp = 0; qp < program.qps.size(); qp++) make_qp(qp);
    for (unsigned qp = 0; qp < program.qps.size(); qp += 2) require(connect(qp), "connect");
    set_faults();
  }
  ~EngineMachine() override {
    for (const auto& host : hosts_) {
      for (const auto& ah : host.ahs) {
        if (ah) host.engine().destroy_ah(ah.get());
      }
    }
  }

  uint32_t qpn(unsigned qp) const override { return qpns_[qp]; }
  QpState state(unsigned qp) const override { return qps_[qp]->state(); }
  bool modify(unsigned qp, QpState to) override {
    QpAttributes attributes;
    attributes.state = to;
    return engine(qp).modify_qp(*qps_[qp], attributes, kAttrState, host(qp).host->now()) == ModifyResult::kOk;
  }
  bool connect(unsigned qp) override;
  void destroy(unsigned qp) override {
    engine(qp).destroy_qp(qps_[qp], now());
    qps_[qp] = nullptr;
  }

  Answer post_send(unsigned qp, SendWr& wr, unsigned to) override {
    if (program_.qps[qp].type == QpType::kUd) {
      wr.ah = host(qp).ahs[program_.qps[to].endpoint].get();
      wr.remote_qpn = qpns_[to];
      wr.remote_qkey = kQkey;
    }
    const PostResult result = engine(qp).post_send(*qps_[qp], wr, now());
    host(qp).host->kick();
    return answer_of(result);
  }
  Answer post_receive(unsigned qp, const RecvWr& wr) override {
    const bool shared = program_.qps[qp].srq;
    const PostResult result = shared ? host(qp).srq->post(wr) : engine(qp).post_recv(*qps_[qp], wr, now());
    host(qp).host->kick();
    return answer_of(result);
  }
  uint32_t poll(unsigned endpoint, unsigned cq, std::span<Completion> out) override {
    return hosts_[endpoint].cqs[cq]->poll(out);
  }
  bool overrun(unsigned endpoint, unsigned cq) const override { return hosts_[endpoint].cqs[cq]->overrun(); }

  void register_region(unsigned endpoint, Region region) override;
  bool deregister(unsigned endpoint, Region region) override {
    return hosts_[endpoint].engine().memory().deregister(key(endpoint, region));
  }
  uint32_t key(unsigned endpoint, Region region) const override {
    return hosts_[endpoint].keys[static_cast<unsigned>(region)];
  }
  void begin_bind(unsigned endpoint, Region window, MwBind& bind) override {
    bind.mw_rkey = key(endpoint, window);
    bind.new_rkey = next_key(bind.mw_rkey);
  }
  void end_bind(unsigned endpoint, Region window) override {
    uint32_t& known = hosts_[endpoint].keys[static_cast<unsigned>(window)];
    known = next_key(known);
  }
  bool free_window(unsigned endpoint, Region window) override;
  bool free_rest() override;

  Instant now() const override { return world_.now(); }
  void run(Duration time) override {
    const Instant end = now() + time;
    advance(end);
    if (!stuck_) world_.events().advance_to(end);
  }
  bool settle() override {
    advance(now() + kSettleTime);
    return world_.events().empty();
  }
  bool stuck() const override { return stuck_; }

  void show_frames() {
    for (unsigned i = 0; i < hosts_.size(); i++) {
      traces_.push_back(std::make_unique<sim::Trace>(kNames[i]));
      hosts_[i].engine().set_capture(traces_.back().get());
    }
  }

 private:
  static constexpr const char* kNames[] = {"endpoint 0", "endpoint 1", "endpoint 2", "endpoint 3"};
  struct One {
    sim::Host* host = nullptr;
    PdId pd = 0, foreign_pd = 0;
    CompletionQueue* cqs[2] = {};
    SharedReceiveQueue* srq = nullptr;
    uint32_t keys[kRegions + kWindows] = {};
    std::array<std::unique_ptr<AddressHandle>, 4> ahs;
    Engine& engine() const { return host->engine(); }
  };

  static void require(bool ok, const char* what) {
    if (ok) return;
    std::fprintf(stderr, "verbs model: %s failed\n", what);
    std::abort();
  }
  static uint32_t next_key(uint32_t key) { return (key & ~0xFFu) | ((key + 1) & 0xFFu); }
  static Answer answer_of(PostResult result) {
    if (result == PostResult::kOk) return Answer::kOk;
    return result == PostResult::kQueueFull ? Answer::kFull : Answer::kInvalid;
  }
  One& host(unsigned qp) { return hosts_[program_.qps[qp].endpoint]; }
  Engine& engine(unsigned qp) { return host(qp).engine(); }

  void add_host(unsigned number);
  void make_objects(unsigned endpoint);
  void make_qp(unsigned qp);
  void set_faults();
  void advance(Instant end) {
    for (const One& one : hosts_) one.host->kick();
    auto& events = world_.events();
    while (events.next() <= end && !stuck_) {
      events.step();
      stuck_ = events.handled() > kEventsMax;
    }
  }

  const Program& program_;
  Memory& memory_;
  std::vector<std::unique_ptr<sim::Trace>> traces_;
  sim::World world_;
  Hub hub_;
  std::vector<One> hosts_;
  std::vector<Qp*> qps_;
  std::vector<uint32_t> qpns_;
  uint32_t connections_ = 0;
  bool stuck_ = false;
};

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
  One one;
  one.host = &world_.add_host(config);
  one.host->set_turn_delay(nanoseconds(random.below(4) == 0 ? random.below(3000) : 0));
  one.host->port().connect(hub_);
  if (random.below(5) == 0) one.host->port().set_tx_room(1 + random.below(8));
  sim::LinkConfig cable;
  cable.delay = microseconds(1 + random.below(3));
  hub_.ways.push_back(&world_.add_link(one.host->port(), cable));
  for (unsigned other = 0; other < program_.endpoints.size(); other++) {
    const EngineConfig peer = sim::simple_config(static_cast<uint8_t>(other + 1));
    if (other != number) one.engine().neighbours().set_static(peer.addresses[0].ip, 0, peer.mac);
  }
  hosts_.push_back(std::move(one));
}

void EngineMachine::make_objects(unsigned endpoint) {
  One& one = hosts_[endpoint];
  const Endpoint& spec = program_.endpoints[endpoint];
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
    AddressVector av;
    av.sgid_index = 1;
    av.dgid = sim::simple_config(static_cast<uint8_t>(to + 1)).addresses[0].ip;
    one.ahs[to] = one.engine().create_ah(one.pd, av, now());
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

void EngineMachine::make_qp(unsigned qp) {
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
  qps_.push_back(engine(qp).create_qp(init, nullptr));
  require(qps_.back() != nullptr, "create_qp");
  qpns_.push_back(qps_.back()->qpn());
}

/// From RESET.
bool EngineMachine::connect(unsigned qp) {
  connections_++;
  bool good = true;
  for (const unsigned each : {qp, qp ^ 1}) {
    const QueuePair& spec = program_.qps[each];
    QpAttributes attributes;
    attributes.access = spec.access;
    attributes.path_mtu_bytes = spec.mtu;
    attributes.timeout = kTimeout;
    attributes.retry_cnt = spec.retries;
    attributes.rnr_retry = spec.rnr_retries;
    attributes.min_rnr_timer = kRnrTimer;
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = spec.reads;
    attributes.qkey = kQkey;
    attributes.dest_qpn = qpns_[each ^ 1];
    // Often about to wrap.
    const auto psn = [this](unsigned side) { return Psn(0xFFFFF8u + connections_ * 0x200000u + side * 0x80000u); };
    attributes.sq_psn = psn(each & 1);
    attributes.rq_psn = psn(~each & 1);
    attributes.av.sgid_index = 1;
    attributes.av.dgid = hosts_[program_.qps[each ^ 1].endpoint].engine().addresses().gids()[1].ip;
    good &= bring_up(engine(each), *qps_[each], attributes, QpState::kRts, now()) == ModifyResult::kOk;
  }
  return good;
}

void EngineMachine::set_faults() {
  std::array<fabric::ImpairmentConfig, 4> configs;
  uint32_t with = 0;
  for (const Fault& fault : program_.faults) {
    const std::string error = fabric::parse_impairments(fault.text, configs[fault.endpoint]);
    require(error.empty(), fault.text.c_str());
    with |= 1u << fault.endpoint;
  }
  for (unsigned i = 0; i < hosts_.size(); i++) {
    if ((with >> i & 1) != 0) hub_.ways[i]->set_impairments(configs[i]);
  }
}

/// Whether a bind that was flushed was carried out before is not known: the window has one key or the other.
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
    for (auto& ah : one.ahs) {
      if (ah) one.engine().destroy_ah(ah.get());
      ah.reset();
    }
    good &= one.engine().objects().deallocate_pd(one.pd) && one.engine().objects().deallocate_pd(one.foreign_pd);
  }
  return good;
}

}  // namespace

std::unique_ptr<Machine> engines(const Program& program, Memory& memory) {
  return std::make_unique<EngineMachine>(program, memory);
}

std::string run_on_engines(const Program& program, const Rules& rules, Totals* totals, Frames frames) {
  thread_local Memory memory(4);
  memory.prepare();
  EngineMachine machine(program, memory);
  if (frames == Frames::kShown) machine.show_frames();
  return run_on(program, rules, machine, memory, totals);
}

}  // namespace uroce::model
