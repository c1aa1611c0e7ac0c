// The engine's objects and addresses.
#include "engine/engine.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/loopback.h"
#include "transport/frame_builder.h"

namespace uroce {

namespace {

constexpr uint32_t kCnpsMax = 64;  // waiting; when there are more, the next marked packet asks again

std::vector<LocalAddress> make_gids(const EngineConfig& config) {
  std::vector<LocalAddress> gids{{link_local_of(config.mac), 64, 0}};
  for (const LocalAddress& a : config.addresses) {
    if (std::find(gids.begin(), gids.end(), a) == gids.end()) gids.push_back(a);
  }
  return gids;
}

uint32_t mtu_for(uint32_t max_frame_bytes) {
  uint32_t mtu = 256;
  while (mtu < 4096 && mtu * 2 + kMaxFrameOverhead <= max_frame_bytes) mtu *= 2;
  return mtu;
}

/// UDP source port of a flow: switches spread flows by it.
uint16_t source_port(uint32_t flow) {
  const uint32_t hash = (flow * 0x9E3779B1u) >> 18;
  return static_cast<uint16_t>(0xC000 | (hash & 0x3FFF));
}

template <typename T>
bool erase_object(std::vector<std::unique_ptr<T>>& objects, T* object) {
  if (object->users != 0) return false;
  auto& place = objects[object->place];
  place.swap(objects.back());
  place->place = object->place;
  objects.pop_back();
  return true;
}

}  // namespace

Engine::Engine(const EngineConfig& config, Port& port, RandomSource& random, Observer& observer)
    : config_(config),
      port_(port),
      random_(random),
      observer_(observer),
      gids_(make_gids(config)),
      active_mtu_(mtu_for(config.max_frame_bytes)),
      memory_(config.max_regions, random, config.max_pds),
      neighbours_(
          config.mac, gids_, counters_,
          [this](const IpAddress& ip, uint16_t vlan, const MacAddress& mac) { on_neighbour(ip, vlan, mac); },
          [this](const NeighbourNews& news) { observer_.on_neighbour_news(news); }),
      reorder_pool_(config.reorder_packets, active_mtu_),
      qps_(config.max_qps, random),
      timers_(config.max_qps),
      env_{memory_,
           counters_,
           observer,
           config.window_packets,
           config.ack_every,
           config.ack_hold,
           config.grant_credits,
           config.congestion,
           config.loss_recovery,
           &reorder_pool_},
      pds_(config.max_pds + 1),
      ready_(config.max_qps, config.max_qps),
      parked_(config.max_qps, config.max_qps),
      pfc_(config.pfc, config.mac, counters_),
      cnps_(kCnpsMax, config.max_qps) {}

Engine::~Engine() = default;

uint16_t Engine::lid() const {
  for (const LocalAddress& a : gids_) {
    if (a.ip.is_v4()) return static_cast<uint16_t>(a.ip.v4_host_order());
  }
  return 0;
}

bool Engine::set_addresses(std::span<const LocalAddress> addresses) {
  check_owner();
  const auto has = [](std::span<const LocalAddress> list, const LocalAddress& address) {
    return std::find(list.begin(), list.end(), address) != list.end();
  };
  bool changed = false;
  for (LocalAddress& row : std::span(gids_).subspan(1)) {
    if (row.ip.is_zero() || has(addresses, row)) continue;
    row = {};
    changed = true;
  }
  for (const LocalAddress& address : addresses) {
    if (address.ip.is_zero() || has(gids_, address)) continue;
    const auto hole = std::find_if(gids_.begin(), gids_.end(), [](const LocalAddress& a) { return a.ip.is_zero(); });
    if (hole == gids_.end() && gids_.size() >= kGidsMax) break;
    hole != gids_.end() ? static_cast<void>(*hole = address) : gids_.push_back(address);
    changed = true;
  }
  if (!changed) return false;
  std::vector<LocalAddress> present = gids_;
  std::erase_if(present, [](const LocalAddress& row) { return row.ip.is_zero(); });
  neighbours_.set_addresses(std::move(present));
  return true;
}

PdId Engine::allocate_pd() {
  check_owner();
  for (PdId pd = 1; pd < pds_.size(); pd++) {
    if (pds_[pd]) continue;
    pds_[pd] = true;
    return pd;
  }
  return 0;
}

bool Engine::deallocate_pd(PdId pd) {
  check_owner();
  if (pd >= pds_.size() || !pds_[pd]) return false;
  bool used = memory_.in_use_by(pd) != 0;
  used |= std::any_of(srqs_.begin(), srqs_.end(), [pd](const auto& srq) { return srq->pd() == pd; });
  used |= std::any_of(ahs_.begin(), ahs_.end(), [pd](const AddressHandle* ah) { return ah->pd == pd; });
  qps_.for_each([&](const Qp& qp) { used |= qp.init().pd == pd; });
  if (used) return false;
  pds_[pd] = false;
  return true;
}

CompletionQueue* Engine::create_cq(uint32_t capacity, void* user) {
  check_owner();
  if (cqs_.size() >= config_.max_cqs) return nullptr;
  cqs_.push_back(std::make_unique<CompletionQueue>(capacity, observer_, user));
  cqs_.back()->place = static_cast<uint32_t>(cqs_.size() - 1);
  return cqs_.back().get();
}

bool Engine::destroy_cq(CompletionQueue* cq) {
  check_owner();
  return erase_object(cqs_, cq);
}

SharedReceiveQueue* Engine::create_srq(PdId pd, uint32_t max_wr, uint32_t max_sge, void* user) {
  check_owner();
  if (srqs_.size() >= config_.max_srqs) return nullptr;
  srqs_.push_back(std::make_unique<SharedReceiveQueue>(pd, max_wr, max_sge, observer_, user));
  srqs_.back()->place = static_cast<uint32_t>(srqs_.size() - 1);
  return srqs_.back().get();
}

bool Engine::destroy_srq(SharedReceiveQueue* srq) {
  check_owner();
  return erase_object(srqs_, srq);
}

Qp* Engine::create_qp(const QpInit& init, void* user) {
  check_owner();
  const QpTable::Slot slot = qps_.next_free();
  if (slot.index == QpTable::kNone) return nullptr;
  auto qp = std::make_unique<Qp>(init, slot.qpn, slot.index, active_mtu_, env_, user);
  Qp* result = qp.get();
  qps_.put(slot.index, std::move(qp));
  init.send_cq->users++;
  init.recv_cq->users++;
  if (init.srq != nullptr) init.srq->users++;
  return result;
}

void Engine::destroy_qp(Qp* qp, Instant now) {
  check_owner();
  now_ = now;
  qp->end_ack_delay();
  update(*qp);
  transmit(now);  // a peer that waits for a last ACK gets it
  qp->forget_work();
  ready_.remove(*qp);
  parked_.remove(*qp);
  cnps_.remove(*qp);
  timers_.cancel(qp->index());
  const QpInit init = qp->init();
  qps_.remove(qp->index());
  init.send_cq->users--;
  init.recv_cq->users--;
  if (init.srq != nullptr) init.srq->users--;
}

/// Where an address vector leads. Nothing when the source GID does not exist or cannot reach such an address.
std::optional<PathSpec> Engine::route(const AddressVector& av, uint32_t flow) {
  PathSpec path;
  const LocalAddress* source = nullptr;
  path.dst_ip = av.dgid;
  if (av.is_global) {
    if (av.sgid_index >= gids_.size() || gids_[av.sgid_index].ip.is_zero()) return std::nullopt;
    source = &gids_[av.sgid_index];
  } else {
    // No GID given: the LID is the low half of an IPv4 address in our own network.
    const auto v4 = std::find_if(gids_.begin(), gids_.end(), [](const LocalAddress& a) { return a.ip.is_v4(); });
    if (v4 == gids_.end() || av.dlid == 0) return std::nullopt;
    source = &*v4;
    path.dst_ip = IpAddress::v4((source->ip.v4_host_order() & 0xFFFF0000u) | av.dlid);
  }
  if (path.dst_ip.is_zero() || path.dst_ip.is_v4() != source->ip.is_v4()) return std::nullopt;
  path.src_mac = config_.mac;
  path.src_ip = source->ip;
  path.vlan_id = source->vlan_id;
  path.pcp = source->vlan_id != 0 ? av.sl & 7 : 0;
  path.traffic_class = av.traffic_class != 0 ? av.traffic_class : config_.traffic_class;
  path.hop_limit = av.hop_limit != 0 ? av.hop_limit : 64;
  path.flow_label = av.flow_label & 0xFFFFF;
  path.udp_src_port = source_port(av.flow_label != 0 ? av.flow_label : flow);
  if (is_own(path.dst_ip, path.vlan_id)) {
    path.dst_mac = config_.mac;
    if (!loopback_) loopback_ = std::make_unique<Loopback>(config_.max_frame_bytes + kMaxFrameOverhead);
  } else {
    path.dst_mac = neighbours_.lookup(path.dst_ip, path.vlan_id).value_or(MacAddress{});
  }
  return path;
}

void Engine::ask_for(const PathSpec& path, uint8_t sgid_index) {
  if (path.dst_mac == config_.mac || path.dst_ip.is_multicast()) return;
  const LocalAddress* source = &gids_[sgid_index < gids_.size() ? sgid_index : 0];
  for (const LocalAddress& own : gids_) {
    if (own.ip == path.src_ip && own.vlan_id == path.vlan_id) source = &own;
  }
  neighbours_.want(path.dst_ip, *source, now_);
}

std::unique_ptr<AddressHandle> Engine::create_ah(PdId pd, const AddressVector& av, Instant now) {
  check_owner();
  now_ = now;
  const auto path = route(av, random_.next_u32());
  if (!path || ahs_full()) return nullptr;
  auto ah = std::make_unique<AddressHandle>();
  ah->pd = pd;
  ah->path = *path;
  ah->header = PathHeader(*path);
  ah->resolved = !path->dst_mac.is_zero();
  ah->static_rate = av.static_rate;
  ask_for(*path, av.sgid_index);
  ah->place = static_cast<uint32_t>(ahs_.size());
  ahs_.push_back(ah.get());
  return ah;
}

void Engine::destroy_ah(AddressHandle* ah) {
  check_owner();
  AddressHandle*& place = ahs_[ah->place];
  place = ahs_.back();
  place->place = ah->place;
  ahs_.pop_back();
}

void Engine::on_neighbour(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac) {
  qps_.for_each([&](Qp& qp) {
    if (!qp.connected() || qp.path().dst_ip != ip || qp.path().vlan_id != vlan_id || qp.path().src_ip.is_zero()) return;
    qp.on_path_resolved(mac);
    update(qp);
  });
  for (AddressHandle* ah : ahs_) {
    if (ah->path.dst_ip != ip || ah->path.vlan_id != vlan_id) continue;
    ah->path.dst_mac = mac;
    ah->header.set_dst_mac(mac);
    ah->resolved = true;
  }
}

ModifyResult Engine::modify_qp(Qp& qp, const QpAttributes& attributes, uint32_t mask, Instant now) {
  check_owner();
  now_ = now;
  std::optional<PathSpec> path;
  if ((mask & kAttrAv) != 0) path = route(attributes.av, qp.qpn() ^ attributes.dest_qpn);
  const bool ends =
      (mask & kAttrState) != 0 && (attributes.state == QpState::kErr || attributes.state == QpState::kReset);
  if (ends) {
    qp.end_ack_delay();
    update(qp);
    transmit(now);
  }
  const bool resolved = path && !path->dst_mac.is_zero();
  const ModifyResult result = qp.modify(attributes, mask, path ? &*path : nullptr, resolved, now);
  if (result == ModifyResult::kOk && path) ask_for(*path, attributes.av.sgid_index);
  update(qp);
  return result;
}

PostResult Engine::post_sends(Qp& qp, std::span<const SendWr> wrs, Instant now) {
  check_owner();
  const PostResult result = qp.post_sends(wrs, now);
  if (result == PostResult::kOk) update(qp);
  return result;
}

PostResult Engine::post_recv(Qp& qp, const RecvWr& wr, Instant now) {
  check_owner();
  const PostResult result = qp.post_recv(wr, now);
  if (result == PostResult::kOk) update(qp);
  return result;
}

EngineStatus Engine::status() const { return {qps_.size(), memory_.in_use()}; }

}  // namespace uroce
