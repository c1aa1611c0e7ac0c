#include "script/testbench.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "engine/address_table.h"
#include "engine/bring_up.h"
#include "engine/neighbours.h"
#include "engine/object_tables.h"
#include "packet/host_frames.h"
#include "script/text.h"
#include "script/vocabulary.h"
#include "transport/address_handle.h"
#include "transport/completion_queue.h"
#include "transport/memory_table.h"
#include "transport/qp.h"
#include "transport/qp_init.h"
#include "transport/receive_queue.h"
#include "uroce/limits.h"

namespace uroce::script {

namespace {

constexpr uint32_t kNeighbourBytes = 256;  // an answer to ARP or neighbour discovery fits
constexpr uint32_t kPortFrames = 1024;     // more than are joined in one burst, or than the engine sends in a turn
constexpr uint32_t kAll = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kMwBind | kFlushGlobal;

QpAttributes default_attributes() {
  QpAttributes attributes;
  attributes.access = kAll;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 4;
  attributes.rq_psn = Psn(200);
  attributes.sq_psn = Psn(100);
  attributes.qkey = kQkey;
  return attributes;
}

/// The path of packets from the peer.
Route path_from_peer(const EngineConfig& config, bool ipv6) {
  Route path;
  path.src_mac = kPeerMac;
  path.dst_mac = kOurMac;
  path.dst_ip = config.addresses[ipv6 ? 1 : 0].ip;
  path.src_ip = *parse_ip(ipv6 ? "fd00::2" : "10.0.0.2");
  path.vlan_id = config.addresses[0].vlan_id;
  path.udp_src_port = 0xC123;
  return path;
}

struct Setting {
  const char* name;
  uint32_t bit;
  void (*apply)(QpAttributes& attributes, int64_t value);
};

constexpr Setting kSettings[] = {
    {"mtu", kAttrPathMtu, [](QpAttributes& a, int64_t v) { a.path_mtu_bytes = static_cast<uint32_t>(v); }},
    {"sq_psn", kAttrSqPsn, [](QpAttributes& a, int64_t v) { a.sq_psn = Psn(static_cast<uint32_t>(v)); }},
    {"rq_psn", kAttrRqPsn, [](QpAttributes& a, int64_t v) { a.rq_psn = Psn(static_cast<uint32_t>(v)); }},
    {"timeout", kAttrTimeout, [](QpAttributes& a, int64_t v) { a.timeout = static_cast<uint8_t>(v); }},
    {"retry_cnt", kAttrRetryCnt, [](QpAttributes& a, int64_t v) { a.retry_cnt = static_cast<uint8_t>(v); }},
    {"rnr_retry", kAttrRnrRetry, [](QpAttributes& a, int64_t v) { a.rnr_retry = static_cast<uint8_t>(v); }},
    {"rnr_timer", kAttrMinRnrTimer, [](QpAttributes& a, int64_t v) { a.min_rnr_timer = static_cast<uint8_t>(v); }},
    {"max_rd_atomic", kAttrMaxQpRdAtomic,
     [](QpAttributes& a, int64_t v) { a.max_rd_atomic = static_cast<uint8_t>(v); }},
    {"max_dest_rd_atomic", kAttrMaxDestRdAtomic,
     [](QpAttributes& a, int64_t v) { a.max_dest_rd_atomic = static_cast<uint8_t>(v); }},
    {"qkey", kAttrQkey, [](QpAttributes& a, int64_t v) { a.qkey = static_cast<uint32_t>(v); }},
    {"dscp", 0, [](QpAttributes& a, int64_t v) { a.av.traffic_class = static_cast<uint8_t>(v << 2); }},
    {"ttl", 0, [](QpAttributes& a, int64_t v) { a.av.hop_limit = static_cast<uint8_t>(v); }},
};

/// Takes over the attributes that the statement names, and returns their mask bits.
uint32_t apply_settings(const Statement& statement, QpAttributes& attributes) {
  uint32_t mask = 0;
  for (const Setting& setting : kSettings) {
    if (!statement.has(setting.name)) continue;
    setting.apply(attributes, statement.number(setting.name, 0, 0));
    mask |= setting.bit;
  }
  if (const Option* access = statement.find("access")) {
    const auto bits = access_of(access->value.text);
    if (!bits)
      throw ScriptError(access->value.where, "rights are read,write,atomic,local,bind,flush,persistent, all or none");
    attributes.access = *bits;
    mask |= kAttrAccessFlags;
  }
  if (statement.has("drain_event")) {
    attributes.sqd_async_notify = true;
    mask |= kAttrEnSqdAsyncNotify;
  }
  return mask;
}

QpState target_state(const Statement& statement) {
  const Option* state = statement.find("state");
  return state == nullptr ? QpState::kRts : *state_of(state->value.text);
}

}  // namespace

std::optional<uint32_t> access_of(std::string_view text) {
  struct Right {
    std::string_view name;
    uint32_t bits;
  };
  static constexpr Right kRights[] = {{"all", kAll},
                                      {"none", 0},
                                      {"local", kLocalWrite},
                                      {"write", kLocalWrite | kRemoteWrite},
                                      {"read", kRemoteRead},
                                      {"atomic", kLocalWrite | kRemoteAtomic},
                                      {"bind", kMwBind},
                                      {"flush", kFlushGlobal},
                                      {"persistent", kFlushPersistent},
                                      {"zero_based", kZeroBased}};
  uint32_t bits = 0;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view name = text.substr(0, comma);
    const auto* right =
        std::find_if(std::begin(kRights), std::end(kRights), [&](const Right& r) { return r.name == name; });
    if (right == std::end(kRights)) return std::nullopt;
    bits |= right->bits;
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return bits;
}

Testbench::Testbench(const EngineConfig& config)
    : config_(config),
      port_(kPortFrames, std::max(config.max_frame_bytes, kNeighbourBytes)),
      engine_(config, port_, random_, observer_) {
  observer_.attach(&manager_);
}

PdId Testbench::pd(int64_t id) {
  const auto [at, fresh] = pds_.try_emplace(id, 0);
  if (fresh) at->second = engine_.objects().allocate_pd();
  return at->second;
}

std::string Testbench::add_mr(const Statement& statement) {
  const auto id = static_cast<uint32_t>(statement.args[0].number.base);
  Region& region = regions_[id];
  region.length = static_cast<uint64_t>(statement.args[1].number.base);
  const auto skew = static_cast<uint64_t>(statement.number("skew", 0, 0));
  region.storage.reset(new uint8_t[region.length + 64 + skew]);
  const uint64_t misaligned = reinterpret_cast<uint64_t>(region.storage.get()) & 63;
  region.memory = region.storage.get() + (64 - misaligned) % 64 + skew;
  region.iova = static_cast<uint64_t>(statement.number("iova", int64_t{id} << 32, 0));
  region.fill = 100 + id;
  for (uint64_t i = 0; i < region.length; i++) region.memory[i] = pattern_byte(region.fill, static_cast<int64_t>(i));
  uint32_t access = kAll;
  if (const Option* option = statement.find("access")) {
    const auto bits = access_of(option->value.text);
    if (!bits)
      throw ScriptError(option->value.where, "rights are read,write,atomic,local,bind,flush,persistent, all or none");
    access = *bits;
  }
  region.key = engine_.memory().register_region(pd(statement.number("pd", 1, 0)), region.memory, region.length,
                                                region.iova, access);
  return region.key == 0 ? "the engine refuses this memory region" : "";
}

std::string Testbench::add_mw(const Statement& statement) {
  const uint32_t key = engine_.memory().allocate_window(pd(statement.number("pd", 1, 0)), statement.word == "type2");
  windows_[static_cast<uint32_t>(statement.args[0].number.base)] = key;
  return key == 0 ? "the engine refuses this window" : "";
}

std::string Testbench::add_srq(const Statement& statement) {
  SharedReceiveQueue* srq = engine_.objects().create_srq(pd(statement.number("pd", 1, 0)),
                                                         static_cast<uint32_t>(statement.args[1].number.base), 4, this);
  srqs_[static_cast<uint32_t>(statement.args[0].number.base)] = srq;
  if (srq == nullptr) return "the engine refuses this shared receive queue";
  srq->set_limit(static_cast<uint32_t>(statement.number("limit", 0, 0)));
  return "";
}

std::string Testbench::add_qp(const Statement& statement) {
  auto added = std::make_unique<ScriptQp>();
  ScriptQp& qp = *added;
  qp.id = static_cast<uint32_t>(statement.args[0].number.base);
  const auto number = [&](const char* name, int64_t otherwise) {
    return static_cast<uint32_t>(statement.number(name, otherwise, 0));
  };
  for (const char* queue : {"cq", "send_wr", "recv_wr", "inline"}) {
    if (number(queue, 1) > kMaxQueueEntries) return std::string(queue) + " is too large";
  }
  QpInit init;
  init.type = *qp_type_of(statement.word);
  init.pd = pd(number("pd", 1));
  qp.cq = engine_.objects().create_cq(number("cq", 4096), &qp);
  init.send_cq = init.recv_cq = qp.cq;
  if (statement.has("srq")) {
    if (!srqs_.contains(number("srq", 0))) return "there is no such srq yet";
    init.srq = qp.srq = srqs_.at(number("srq", 0));
  }
  init.cap = {number("send_wr", 256), number("recv_wr", 256), 4, 4, number("inline", 256)};
  init.sq_sig_all = statement.has("sig_all");
  qp.qp = engine_.create_qp(init, &qp);
  if (qp.qp == nullptr) return "the engine has no room for this QP";
  qp.peer_qpn = number("peer", 0x1000 + qp.id);
  const bool ipv6 = statement.has("ipv6");
  qp.attributes = default_attributes();
  qp.attributes.dest_qpn = qp.peer_qpn;
  qp.attributes.av.sgid_index = ipv6 ? 2 : 1;
  qp.from_peer = path_from_peer(config_, ipv6);
  qp.attributes.av.dgid = qp.from_peer.src_ip;
  apply_settings(statement, qp.attributes);
  qps_[qp.id] = std::move(added);
  const QpState target = target_state(statement);
  const ModifyResult result = bring_up(engine_, *qp.qp, qp.attributes, target, now());
  if (result != ModifyResult::kOk) return std::string("the engine refuses it: ") + modify_result_text(result);
  qp.expected_state = target;
  if (init.type == QpType::kUd) qp.ah = engine_.create_ah(init.pd, qp.attributes.av, now());
  turn();
  if (!statement.has("unresolved")) resolve(qp.from_peer);
  return "";
}

/// Moves the QP to another state, with the attributes that the transition needs and those that the statement names.
ModifyResult Testbench::modify(ScriptQp& qp, const Statement& statement, QpState to) {
  QpAttributes attributes = qp.attributes;
  const uint32_t named = apply_settings(statement, attributes);
  attributes.state = to;
  const uint32_t mask = required_attributes(qp.qp->type(), qp.qp->state(), to) | named;
  const ModifyResult result = engine_.modify_qp(*qp.qp, attributes, mask, now());
  if (result == ModifyResult::kOk) {
    qp.attributes = attributes;
    qp.expected_state = to;
  }
  return result;
}

ModifyResult Testbench::set(ScriptQp& qp, const Statement& statement) {
  QpAttributes attributes = qp.attributes;
  const uint32_t mask = apply_settings(statement, attributes);
  const ModifyResult result = engine_.modify_qp(*qp.qp, attributes, mask, now());
  if (result == ModifyResult::kOk) qp.attributes = attributes;
  return result;
}

void Testbench::destroy(ScriptQp& qp) {
  engine_.destroy_qp(qp.qp, now());
  qp.qp = nullptr;
}

const Route& Testbench::peer_path(bool ipv6) {
  const auto [at, fresh] = peer_paths_.try_emplace(ipv6, path_from_peer(config_, ipv6));
  if (fresh) resolve(at->second);
  return at->second;
}

void Testbench::resolve(const Route& from_peer) {
  uint8_t frame[kNeighbourBytes];
  // A QP that goes no further than INIT has not asked for the peer's address yet, and an answer that was not asked for
  // is ignored.
  for (const LocalAddress& own : engine_.addresses().gids()) {
    if (own.ip == from_peer.dst_ip) engine_.neighbours().want(from_peer.src_ip, own, now());
  }
  turn();
  const uint32_t bytes =
      encode_neighbour_answer(frame, {kOurMac, kPeerMac, from_peer.vlan_id}, from_peer.src_ip, from_peer.dst_ip);
  ensure(port_.deliver({frame, bytes}), "the port is empty between two statements");
  turn();
}

ScriptQp* Testbench::qp_of_peer(uint32_t dest_qpn) {
  for (auto& [id, qp] : qps_) {
    if (qp->peer_qpn == dest_qpn) return qp.get();
  }
  return nullptr;
}

void Testbench::collect() {
  for (auto& entry : qps_) {
    ScriptQp& qp = *entry.second;
    qp.cq->drain(~0u, [&](const Completion& completion) { qp.completions.push_back({now(), completion}); });
  }
}

/// The port is empty behind each turn, so that its room never bounds what the engine sends.
uint32_t Testbench::turn_once() {
  ensure(sent_.empty() || sent_.back().at <= now(), "time goes forward");
  const uint32_t done = engine_.turn(now());
  manager_.on_turn(now());
  while (const auto frame = port_.take()) sent_.push_back({now(), Bytes(frame->begin(), frame->end())});
  return done;
}

void Testbench::turn() {
  constexpr int kTurnsMax = 10'000;
  turn_once();
  int turns = 0;
  while ((engine_.wants_transmit() && !port_.congested()) || port_.waiting() != 0) {
    if (turn_once() == 0) break;
    if (++turns == kTurnsMax) {
      stuck_ = true;
      break;
    }
  }
  collect();
}

bool Testbench::step(Instant until) {
  constexpr uint32_t kLateMax = 100'000;
  if (now() >= until || stuck_) return false;
  const Instant next = std::min(engine_.next_timeout(), manager_.next_timeout());
  now_ = std::max(now(), std::min(next, until));
  turn();
  // A timer that is due but cannot be served (because the port is full) would stop the clock for ever.
  if (engine_.next_timeout() <= now()) {
    now_ = std::min(until, port_.congested() ? until : now() + microseconds(1));
    stuck_ = ++late_steps_ > kLateMax;
  }
  return true;
}

}  // namespace uroce::script
