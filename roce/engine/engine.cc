#include "engine/engine.h"

#include <algorithm>
#include <new>
#include <optional>

#include "engine/engine_parts.h"
#include "transport/address_handle.h"
#include "transport/frame_builder.h"
#include "transport/observer.h"
#include "transport/receive_queue.h"

namespace uroce {

EngineParts::EngineParts(const EngineConfig& config, Port& port, RandomSource& random, Observer& observer,
                         NeighbourTable::Resolved on_resolved)
    : addresses(config.mac, config.addresses),
      neighbours(config.mac, {addresses.gids().begin(), addresses.gids().end()}, counters, std::move(on_resolved),
                 [&observer](const NeighbourNews& news) { observer.on_neighbour_news(news); }),
      pfc(config.pfc, config.mac, counters),
      loopback(std::max(config.max_frame_bytes, QueuePairs::kMtuMin) + kMaxFrameOverhead),
      management(counters),
      multicast(addresses, loopback, {config.mac, random, counters, config.multicast_filter}),
      objects(config, random, observer),
      qps(config, objects, random, counters, observer),
      schedule(config.max_qps),
      router(addresses, neighbours, loopback, config.traffic_class),
      steering(loopback, schedule, counters, config.raw_filter),
      receiver(
          {port, addresses, qps.table(), schedule, pfc, neighbours, loopback, tap, management, multicast, &steering},
          counters),
      transmitter({port, qps.table(), schedule, pfc, neighbours, loopback, tap, management, multicast, &steering},
                  counters, config.mac) {}

Engine::Engine(const EngineConfig& config, Port& port, RandomSource& random, Observer& observer)
    : random_(random),
      parts_(std::make_unique<EngineParts>(
          config, port, random, observer,
          [this](const IpAddress& ip, uint16_t vlan, const MacAddress& mac) { on_neighbour(ip, vlan, mac); })) {}

Engine::~Engine() = default;

// Parts.

const AddressTable& Engine::addresses() const { return parts_->addresses; }
const Counters& Engine::counters() const { return parts_->counters; }
const QueuePairs& Engine::qps() const { return parts_->qps; }
std::optional<uint32_t> Engine::own_block() { return parts_->qps.own_block(); }
MemoryTable& Engine::memory() { return parts_->objects.memory(); }
Neighbours& Engine::neighbours() { return parts_->neighbours; }
PriorityFlowControl& Engine::flow_control() { return parts_->pfc; }

ObjectTables& Engine::objects() {
  owner_.check();
  return parts_->objects;
}

MulticastGroups& Engine::multicast() {
  owner_.check();
  return parts_->multicast;
}

Steering& Engine::steering() {
  owner_.check();
  return parts_->steering;
}

void Engine::set_link(uint64_t bits_per_second, uint32_t frame_bytes) {
  parts_->qps.set_link_speed(bits_per_second);
  parts_->qps.set_frame_bytes(frame_bytes);
}
void Engine::set_capture(Capture* capture) {
  parts_->tap.attach(capture);
  parts_->qps.frames_only(capture != nullptr);
}
void Engine::set_management(ManagementSink* sink) { parts_->management.attach(sink); }

bool Engine::set_addresses(std::span<const LocalAddress> addresses, Announce announce) {
  owner_.check();
  if (!parts_->addresses.set(addresses)) return false;
  parts_->neighbours.set_addresses(parts_->addresses.present());
  if (announce == Announce::kYes) parts_->neighbours.announce();
  return true;
}

// Objects.

Qp* Engine::create_qp(const QpInit& init, void* user) {
  owner_.check();
  return parts_->qps.create(init, user);
}

void Engine::destroy_qp(Qp* qp, Instant now) {
  owner_.check();
  parts_->receiver.receive_all(now);
  parts_->transmitter.send_last_ack(*qp, now);
  qp->forget_work();
  parts_->schedule.remove(*qp);
  parts_->multicast.forget(*qp, now);
  parts_->steering.forget(*qp);
  parts_->qps.destroy(*qp);
}

bool Engine::destroy_srq(SharedReceiveQueue* srq) {
  if (srq->xrc().domain != 0) parts_->qps.forget_xrc_queue(*srq);
  return objects().destroy_srq(srq);
}

ModifyResult Engine::modify_qp(Qp& qp, const QpAttributes& attributes, uint32_t mask, Instant now) {
  owner_.check();
  std::optional<Route> path;
  if ((mask & kAttrAv) != 0) path = parts_->router.route(attributes.av, qp.qpn() ^ attributes.dest_qpn);
  const bool ends =
      (mask & kAttrState) != 0 && (attributes.state == QpState::kErr || attributes.state == QpState::kReset);
  if (ends) {
    parts_->receiver.receive_all(now);
    parts_->transmitter.send_last_ack(qp, now);
  }
  const bool resolved = path && !path->dst_mac.is_zero();
  const ModifyResult result = qp.modify(attributes, mask, path ? &*path : nullptr, resolved, now);
  if (result == ModifyResult::kOk && (mask & kAttrState) != 0 && attributes.state == QpState::kRtr)
    parts_->transmitter.forget_answers(attributes.dest_qpn);
  if (result == ModifyResult::kOk && path) parts_->router.ask_for(*path, attributes.av.sgid_index, now);
  parts_->schedule.update(qp);
  return result;
}

std::unique_ptr<AddressHandle> Engine::create_ah(PdId pd, const AddressVector& av, Instant now) {
  owner_.check();
  const auto path = parts_->router.route(av, random_.next_u32());
  if (!path) return nullptr;
  std::unique_ptr<AddressHandle> ah = parts_->objects.create_ah(pd, *path, av.static_rate);
  if (ah) parts_->router.ask_for(*path, av.sgid_index, now);
  return ah;
}

void Engine::destroy_ah(AddressHandle* ah) { objects().destroy_ah(ah); }

/// Called by the neighbours when an address has another MAC than before.
void Engine::on_neighbour(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac) {
  parts_->qps.for_each([&](Qp& qp) {
    if (!qp.connected() || qp.path().dst_ip != ip || qp.path().vlan_id != vlan_id || qp.path().src_ip.is_zero()) return;
    qp.on_path_resolved(mac);
    parts_->schedule.update(qp);
  });
  parts_->objects.on_resolved(ip, vlan_id, mac);
  parts_->management.on_resolved(ip, vlan_id, mac);
}

void Engine::send_mad(const AddressVector& av, std::span<const uint8_t, kManagementBytes> mad, Instant now) try {
  owner_.check();
  const auto path = parts_->router.route(av, kManagementQpn);
  if (!path) {
    parts_->counters.tx_drop_mad_unresolved++;
    return;
  }
  if (!parts_->management.push(*path, mad, now)) return;
  // Also if the MAC is known: a second request for a connection may mean that the first met silence.
  parts_->router.ask_for(*path, av.sgid_index, now);
} catch (const std::bad_alloc&) {
  parts_->counters.tx_drop_mad_full++;  // lost as on a wire: its sender repeats it
}

// Work.

PostResult Engine::post_sends(Qp& qp, std::span<const SendWr> wrs, Instant now) {
  owner_.check();
  const PostResult result = qp.post_sends(wrs, now);
  if (result == PostResult::kOk) parts_->schedule.on_posted(qp);
  return result;
}

PostResult Engine::post_recv(Qp& qp, const RecvWr& wr, Instant now) {
  owner_.check();
  const PostResult result = qp.post_recv(wr, now);
  // It may let an ACK with credits leave, and changes no deadline.
  if (result == PostResult::kOk && qp.wants_transmit()) parts_->schedule.on_posted(qp);
  return result;
}

// Time.

uint32_t Engine::turn(Instant now) {
  owner_.check();
  uint32_t work = parts_->receiver.receive(now);
  if (parts_->loopback.size() != 0) work += parts_->receiver.drain_loopback(now);
  if (parts_->schedule.next_timeout() <= now) run_timers(now);
  if (parts_->pfc.next_event() <= now) parts_->pfc.on_time(now);
  if (parts_->management.next_timeout() <= now) parts_->management.expire(now);
  if (parts_->objects.next_event() <= now) parts_->objects.raise_due(now);
  work += parts_->transmitter.transmit(now);
  return work;
}

uint32_t Engine::transmit(Instant now) {
  owner_.check();
  return parts_->transmitter.transmit(now);
}

void Engine::run_timers(Instant now) {
  for (uint32_t index = parts_->schedule.pop_due(now); index != TimerQueue::kNone;
       index = parts_->schedule.pop_due(now)) {
    Qp* qp = parts_->qps.table().at(index);
    if (qp == nullptr) continue;
    if (qp->next_timeout() <= now) qp->on_timeout(now);
    // A peer that is silent may have another MAC by now. An unresolved one is asked for with its next frame.
    if (qp->asks_in_vain() && qp->path_resolved())
      parts_->router.ask_for(qp->path(), qp->attributes().av.sgid_index, now);
    parts_->schedule.update(*qp);
  }
}

bool Engine::wants_transmit() const {
  return parts_->schedule.wants_transmit() || parts_->loopback.size() != 0 || parts_->management.wants_transmit() ||
         parts_->transmitter.keeps_answers();
}

Instant Engine::next_timeout() const {
  return std::min({parts_->schedule.next_timeout(), parts_->neighbours.next_timeout(), parts_->pfc.next_event(),
                   parts_->management.next_timeout(), parts_->multicast.membership().next_timeout(),
                   parts_->objects.next_event()});
}

}  // namespace uroce
