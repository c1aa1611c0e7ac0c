#include "end.h"

#include <cstdio>
#include <cstdlib>

#include "engine/address_table.h"
#include "engine/bring_up.h"
#include "engine/neighbours.h"
#include "engine/object_tables.h"
#include "packet/packet.h"
#include "sim/testbed.h"
#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/memory_table.h"
#include "transport/qp.h"
#include "transport/qp_init.h"

namespace uroce::twin {

namespace {

constexpr uint32_t kReceives = 64;  // posted ahead

uint64_t iova_of(size_t flow) { return 0x7e57'0000'0000 + flow * 0x1000'0000; }

bool takes_receive(WrOpcode opcode) {
  return opcode == WrOpcode::kSend || opcode == WrOpcode::kSendWithImm || opcode == WrOpcode::kRdmaWriteWithImm;
}

/// Every operation has memory of its own, on both sides.
uint32_t room_of(const Op& op) { return (op.bytes + 15) & ~7u; }

void require(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "twin: %s failed\n", what);
  std::abort();
}

}  // namespace

EngineConfig End::config_of(const Scenario& scenario, bool is_b) {
  EngineConfig config = sim::simple_config(is_b ? 2 : 1);
  config.congestion.algorithm = scenario.congestion;
  // A probe of selective repeat waits this much longer than two round trips: a third of a long cable's delay.
  if (scenario.cable_us != 0) config.ack_delay = microseconds(2 * scenario.cable_us / 3);
  return config;
}

End::End(Engine& engine, const Scenario& scenario, bool is_b)
    : engine_(engine),
      is_b_(is_b),
      timeout_(scenario.cable_us != 0 ? 14 : 10),
      pd_(engine.objects().allocate_pd()),
      cq_(engine.objects().create_cq(1024, nullptr)) {
  engine.set_capture(this);
  engine.set_link(10'000'000'000, UINT32_MAX);
  lanes_.reserve(scenario.flows.size());
  for (size_t i = 0; i < scenario.flows.size(); i++) add_lane(scenario.flows[i], i);
  seen_.completions.resize(lanes_.size());
}

End::~End() { engine_.set_capture(nullptr); }

void End::add_lane(const Flow& flow, size_t number) {
  Lane lane;
  lane.flow = &flow;
  lane.asks = flow.from_b == is_b_;
  uint32_t bytes = 0;
  for (const Round& round : flow.rounds) {
    for (const Op& op : round) {
      bytes += room_of(op);
      if (takes_receive(op.opcode)) lane.expected.push_back(op);
    }
  }
  lane.memory.resize(bytes);
  const uint32_t salt = static_cast<uint32_t>(number) * 2 + (lane.asks ? 1 : 0);
  for (uint32_t i = 0; i < bytes; i++) lane.memory[i] = static_cast<uint8_t>(i * (2 * salt + 3) + i / 251 + salt);
  lane.key = engine_.memory().register_region(pd_, lane.memory.data(), bytes, iova_of(number), sim::kAllAccess);
  QpInit init;
  init.pd = pd_;
  init.send_cq = init.recv_cq = cq_;
  init.cap = {128, 128, 1, 1, 0};
  init.loss_recovery = flow.recovery;
  lane.qp = engine_.create_qp(init, nullptr);
  require(lane.key != 0 && lane.qp != nullptr, "making a flow");
  if (lane.asks) flows_left_++;
  lanes_.push_back(std::move(lane));
}

void End::connect(End& a, End& b, Instant now) {
  a.now_ = b.now_ = now;
  for (End* end : {&a, &b}) {
    End& peer = end == &a ? b : a;
    for (const LocalAddress& address : peer.engine_.addresses().gids()) {
      end->engine_.neighbours().set_static(address.ip, 0, peer.engine_.addresses().mac());
    }
    for (size_t i = 0; i < end->lanes_.size(); i++) {
      Lane& lane = end->lanes_[i];
      lane.peer_key = peer.lanes_[i].key;
      QpAttributes attributes;
      attributes.access = kRemoteWrite | kRemoteRead | kRemoteAtomic;
      attributes.path_mtu_bytes = lane.flow->mtu;
      attributes.timeout = end->timeout_;
      attributes.min_rnr_timer = 12;
      attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 4;
      attributes.dest_qpn = peer.lanes_[i].qp->qpn();
      attributes.sq_psn = attributes.rq_psn = Psn(first_psn(i));
      attributes.av.sgid_index = lane.flow->ipv6 ? 2 : 1;
      attributes.av.dgid = peer.engine_.addresses().gids()[attributes.av.sgid_index].ip;
      require(bring_up(end->engine_, *lane.qp, attributes, QpState::kRts, now) == ModifyResult::kOk, "connecting");
    }
  }
}

void End::start() {
  for (Lane& lane : lanes_) {
    if (lane.asks) {
      post_round(lane);
    } else if (!lane.flow->late_receives) {
      for (uint32_t i = 0; i < kReceives; i++) post_receive(lane);
    }
  }
}

/// The next receive that the scenario needs, if there is one.
void End::post_receive(Lane& lane) {
  if (lane.posted == lane.expected.size()) return;
  const size_t number = static_cast<size_t>(&lane - lanes_.data());
  const Op& op = lane.expected[lane.posted];
  const Sge sge{iova_of(number) + lane.recv_offset, op.bytes, lane.key};
  require(engine_.post_recv(*lane.qp, {lane.posted, &sge, 1}, now_) == PostResult::kOk, "posting a receive");
  lane.recv_offset += room_of(op);
  lane.posted++;
}

void End::post_round(Lane& lane) {
  const size_t number = static_cast<size_t>(&lane - lanes_.data());
  const Round& round = lane.flow->rounds[lane.round++];
  for (const Op& op : round) {
    const Sge sge{iova_of(number) + lane.offset, op.bytes, lane.key};
    SendWr wr;
    wr.wr_id = lane.posted++;
    wr.opcode = op.opcode;
    wr.flags = static_cast<uint8_t>(op.flags | kSendSignaled);
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.imm_or_rkey = static_cast<uint32_t>(wr.wr_id) * 0x01010101;
    wr.remote_addr = sge.addr;
    wr.rkey = lane.peer_key;
    wr.compare_add = wr.wr_id + 5;
    wr.swap = ~wr.wr_id;
    require(engine_.post_send(*lane.qp, wr, now_) == PostResult::kOk, "posting");
    lane.offset += room_of(op);
  }
  lane.open = round.size();
}

bool End::on_completion(const Completion& completion) {
  size_t number = 0;
  while (lanes_[number].qp->qpn() != completion.qp_num) number++;
  Lane& lane = lanes_[number];
  const std::string text = "wr " + std::to_string(completion.wr_id) + ": " + wc_status_name(completion.status) + ", " +
                           std::to_string(static_cast<int>(completion.opcode)) + ", " +
                           std::to_string(completion.byte_len) + " bytes, imm " +
                           std::to_string(completion.imm_or_rkey);
  seen_.completions[number].push_back(text);
  if (completion.status != WcStatus::kSuccess) seen_.errors += "flow " + std::to_string(number) + ", " + text + "\n";
  if (!lane.asks) {
    if (!lane.flow->late_receives) post_receive(lane);
    return false;
  }
  if (--lane.open != 0) return false;
  if (lane.round == lane.flow->rounds.size()) {
    flows_left_--;
    return false;
  }
  post_round(lane);
  return true;
}

bool End::work(Instant now) {
  now_ = now;
  bool posted = false;
  cq_->drain(UINT32_MAX, [&](const Completion& completion) { posted = on_completion(completion) || posted; });
  for (; receives_missed_ < engine_.counters().out_of_buffer; receives_missed_++) {
    for (Lane& lane : lanes_) {
      if (!lane.asks && lane.flow->late_receives) post_receive(lane);
    }
  }
  return posted;
}

void End::on_frame(Direction direction, Instant /*now*/, std::span<const uint8_t> frame) {
  PacketView packet;
  const ParseResult result = parse_frame(frame, packet);
  if (result == ParseResult::kNotRoce) return;
  const uint32_t dest_qp = result == ParseResult::kOk ? packet.bth.dest_qp : UINT32_MAX;  // damaged
  seen_.frames[{direction == Direction::kSent, dest_qp}].emplace_back(frame.begin(), frame.end());
}

Seen End::take_seen() {
  for (Lane& lane : lanes_) seen_.memory.push_back(lane.memory);
  if (!done()) seen_.errors += std::to_string(flows_left_) + " flows did not come to their end\n";
  seen_.retransmits = engine_.counters().retransmits;
  return std::move(seen_);
}

}  // namespace uroce::twin
