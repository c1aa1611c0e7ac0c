// Engines in virtual time, joined by a hub: a cable from it to each of them, with the program's faults.
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "engine/address_table.h"
#include "sim/testbed.h"
#include "sim/trace.h"
#include "transport/address_handle.h"
#include "transport/qp.h"
#include "transport/requester.h"
#include "transport/timing.h"
#include "verbs_model/run.h"
#include "verbs_model/spoofer.h"
#include "verbs_model/trace_checker.h"
#include "verbs_model/verdict.h"

namespace uroce::model {

inline constexpr uint32_t kEngineQkey = 0x11111111;  // of every UD queue pair
inline constexpr uint8_t kTimeout = 6;               // 262 us
inline constexpr uint64_t kEventsMax = 400'000;      // of one program; a long one has 20,000

/// The last byte of a MAC address is the host's number, from 1.
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
  EngineMachine(const Program& program, Memory& memory)
      : program_(program), memory_(memory), world_(program.seed), spoofer_(program.seed) {
    hub_.ways.reserve(program.endpoints.size());
    for (unsigned i = 0; i < program.endpoints.size(); i++) add_host(i);
    for (unsigned i = 0; i < program.endpoints.size(); i++) make_objects(i);
    for (unsigned qp = 0; qp < program.qps.size(); qp++) {
      qps_.push_back(make_qp(qp));
      qpns_.push_back(qps_.back()->qpn());
    }
    for (unsigned qp = 0; qp < program.qps.size(); qp += 2) require(connect(qp), "connect");
    set_faults();
  }
  ~EngineMachine() override {
    for (One& one : hosts_) one.forget_handles();
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
    engine(qp).destroy_qp(qps_[qp], host(qp).host->now());
    qps_[qp] = nullptr;
  }

  Answer post_send(unsigned qp, SendWr& wr, unsigned to) override {
    if (program_.qps[qp].type == QpType::kUd) {
      wr.ah = host(qp).ahs[program_.qps[qp].ipv6 ? 1 : 0][program_.qps[to].endpoint].get();
      wr.remote_qpn = qpns_[to];
      wr.remote_qkey = kEngineQkey;
    }
    const PostResult result = engine(qp).post_send(*qps_[qp], wr, host(qp).host->now());
    host(qp).host->wake();
    return answer_of(result);
  }
  Answer post_receive(unsigned qp, const RecvWr& wr) override {
    const bool shared = program_.qps[qp].srq;
    const PostResult result =
        shared ? host(qp).srq->post(wr) : engine(qp).post_recv(*qps_[qp], wr, host(qp).host->now());
    host(qp).host->wake();
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

  /// The PSN that a reliable queue pair expects to be acknowledged next.
  Psn psn(unsigned qp) const { return qps_[qp]->requester()->window().una(); }
  Instant now(unsigned endpoint) const override { return hosts_[endpoint].host->now(); }
  std::string complaint() const override { return verdict_.text(); }
  void befall(const Step& step) override;
  Duration ack_timeout() const override { return uroce::ack_timeout(kTimeout); }
  const Counters* counters(unsigned endpoint) const override { return &hosts_[endpoint].engine().counters(); }
  std::optional<IpAddress> address(unsigned qp) const override {
    return hosts_[program_.qps[qp].endpoint].engine().addresses().gids()[program_.qps[qp].ipv6 ? 2 : 1].ip;
  }

  void run(Duration time) override {
    const Instant end = world_.now() + time;
    advance(end);
    if (!stuck_) world_.events().advance_to(end);
  }
  bool settle() override {
    calm();
    advance(world_.now() + settle_time_);
    return world_.events().empty();
  }
  void begin_round() override { events_max_ = world_.events().handled() + kEventsMax; }
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
    std::array<std::unique_ptr<AddressHandle>, 4> ahs[2];  // IPv4, IPv6
    std::unique_ptr<TraceChecker> checker;
    uint32_t usual_tx_room = Port::kMaxBurst;
    Engine& engine() const { return host->engine(); }
    void forget_handles();
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
  Qp* make_qp(unsigned qp);
  void set_faults();
  /// Ports and buffers are as before the troubles.
  void calm();
  void cut(unsigned endpoint, bool off);
  void spoof(unsigned qp, uint32_t count);
  void vanish(unsigned qp);
  void restart(unsigned endpoint, bool same_numbers);
  void advance(Instant end) {
    for (const One& one : hosts_) one.host->wake();
    auto& events = world_.events();
    while (events.next() <= end && !stuck_) {
      events.step();
      stuck_ = events.handled() > events_max_;
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
  std::array<uint32_t, 4> connections_ = {};  // made so far by each pair
  uint32_t cut_ = 0;                          // cables that are cut, a bit each
  std::array<fabric::ImpairmentConfig, 4> cables_;
  bool stuck_ = false;
  uint64_t events_max_ = kEventsMax;
  Duration settle_time_;
  Verdict verdict_;
  Spoofer spoofer_;
};

}  // namespace uroce::model
