#include "engine/engine.h"

#include <algorithm>
#include <new>
#include <optional>

#include "transport/frame_builder.h"
#include "transport/requester.h"

namespace uroce {

Engine::Engine(const EngineConfig& config, Port& port, RandomSource& random, Observer& observer)
    : random_(random),
      addresses_(config.mac, config.addresses),
      neighbours_(
          config.mac, {addresses_.gids().begin(), addresses_.gids().end()}, counters_,
          [this](const IpAddress& ip, uint16_t vlan, const MacAddress& mac) { on_neighbour(ip, vlan, mac); },
          [&observer](const NeighbourNews& news) { observer.on_neighbour_news(news); }),
      pfc_(config.pfc, config.mac, counters_),
      loopback_(std::max(config.max_frame_bytes, QueuePairs::kMtuMin) + kMaxFrameOverhead),
      management_(counters_),
      multicast_(addresses_, loopback_, {config.mac, random, counters_, config.multicast_filter}),
      objects_(config, random, observer),
      qps_(config, objects_, random, counters_, observer),
      schedule_(config.max_qps),
      router_(addresses_, neighbours_, loopback_, config.traffic_class),
      steering_(loopback_, schedule_, counters_, config.raw_filter),
      receiver_({port, addresses_, qps_.table(), schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_,
                 &steering_},
                counters_),
      transmitter_(
          {port, qps_.table(), schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_, &steering_},
          counters_, config.mac) {}

Engine::~Engine() = default;

bool Engine::set_addresses(std::span<const LocalAddress> addresses) {
  owner_.check();
  if (!addresses_.set(addresses)) return false;
  neighbours_.set_addresses(addresses_.present());
  return true;
}

// Objects.

Qp* Engine::create_qp(const QpInit& init, void* user) {
  owner_.check();
  return qps_.create(init, user);
}

void Engine::destroy_qp(Qp* qp, Instant now) {
  owner_.check();
  receiver_.receive_all(now);
  transmitter_.send_last_ack(*qp, now);
  qp->forget_work();
  schedule_.remove(*qp);
  multicast_.forget(*qp, now);
  steering_.forget(*qp);
  qps_.destroy(*qp);
}

bool Engine::destroy_srq(SharedReceiveQueue* srq) {
  if (srq->xrc().domain != 0) qps_.forget_xrc_queue(*srq);
  return objects().destroy_srq(srq);
}

ModifyResult Engine::modify_qp(Qp& qp, const QpAttributes& attributes, uint32_t mask, Instant now) {
  owner_.check();
  std::optional<PathSpec> path;
  if ((mask & kAttrAv) != 0) path = router_.route(attributes.av, qp.qpn() ^ attributes.dest_qpn);
  const bool ends =
      (mask & kAttrState) != 0 && (attributes.state == QpState::kErr || attributes.state == QpState::kReset);
  if (ends) {
    receiver_.receive_all(now);
    transmitter_.send_last_ack(qp, now);
  }
  const bool resolved = path && !path->dst_mac.is_zero();
  const ModifyResult result = qp.modify(attributes, mask, path ? &*path : nullptr, resolved, now);
  if (result == ModifyResult::kOk && path) router_.ask_for(*path, attributes.av.sgid_index, now);
  schedule_.update(qp);
  return result;
}

std::unique_ptr<AddressHandle> Engine::create_ah(PdId pd, const AddressVector& av, Instant now) {
  owner_.check();
  const auto path = router_.route(av, random_.next_u32());
  if (!path) return nullptr;
  std::unique_ptr<AddressHandle> ah = objects_.create_ah(pd, *path, av.static_rate);
  if (ah) router_.ask_for(*path, av.sgid_index, now);
  return ah;
}

void Engine::destroy_ah(AddressHandle* ah) { objects().destroy_ah(ah); }

/// Called by the neighbours when an address has another MAC than before.
void Engine::on_neighbour(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac) {
  qps_.for_each([&](Qp& qp) {
    if (!qp.connected() || qp.path().dst_ip != ip || qp.path().vlan_id != vlan_id || qp.path().src_ip.is_zero()) return;
    qp.on_path_resolved(mac);
    schedule_.update(qp);
  });
  objects_.on_resolved(ip, vlan_id, mac);
  management_.on_resolved(ip, vlan_id, mac);
}

void Engine::send_mad(const AddressVector& av, std::span<const uint8_t, kManagementBytes> mad, Instant now) try {
  owner_.check();
  const auto path = router_.route(av, kManagementQpn);
  if (!path) {
    counters_.tx_drop_mad_unresolved++;
    return;
  }
  if (!management_.push(*path, mad, now)) return;
  // Also if the MAC is known: whoever asks for a connection a second time may have met silence.
  router_.ask_for(*path, av.sgid_index, now);
} catch (const std::bad_alloc&) {
  counters_.tx_drop_mad_full++;  // lost as on a wire: whoever waits for it asks again
}

// Work.

PostResult Engine::post_sends(Qp& qp, std::span<const SendWr> wrs, Instant now) {
  owner_.check();
  const PostResult result = qp.post_sends(wrs, now);
  if (result == PostResult::kOk) schedule_.update(qp);
  return result;
}

PostResult Engine::post_recv(Qp& qp, const RecvWr& wr, Instant now) {
  owner_.check();
  const PostResult result = qp.post_recv(wr, now);
  if (result == PostResult::kOk) schedule_.update(qp);
  return result;
}

// Time.

uint32_t Engine::turn(Instant now) {
  owner_.check();
  uint32_t work = receiver_.receive(now);
  if (loopback_.size() != 0) work += receiver_.drain_loopback(now);
  if (schedule_.next_timeout() <= now) run_timers(now);
  if (pfc_.next_event() <= now) pfc_.on_time(now);
  if (management_.next_timeout() <= now) management_.expire(now);
  if (objects_.next_event() <= now) objects_.raise_due(now);
  work += transmitter_.transmit(now);
  return work;
}

uint32_t Engine::transmit(Instant now) {
  owner_.check();
  return transmitter_.transmit(now);
}

void Engine::run_timers(Instant now) {
  for (uint32_t index = schedule_.pop_due(now); index != TimerQueue::kNone; index = schedule_.pop_due(now)) {
    Qp* qp = qps_.table().at(index);
    if (qp == nullptr) continue;
    if (qp->next_timeout() <= now) qp->on_timeout(now);
    // A peer that is silent may have another MAC by now. One without any is being asked for already.
    if (qp->requester().retry_timer().timed_out() && qp->path_resolved())
      router_.ask_for(qp->path(), qp->attributes().av.sgid_index, now);
    schedule_.update(*qp);
  }
}

Instant Engine::next_timeout() const {
  return std::min({schedule_.next_timeout(), neighbours_.next_timeout(), pfc_.next_event(), management_.next_timeout(),
                   multicast_.membership().next_timeout(), objects_.next_event()});
}

}  // namespace uroce
