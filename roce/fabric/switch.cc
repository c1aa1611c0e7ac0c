#include "fabric/switch.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace uroce::fabric {
namespace {

/// True for 01:80:c2:00:00:00 to 01:80:c2:00:00:0f.
bool is_reserved_mac(const uint8_t* mac) {
  constexpr uint8_t kPrefix[5] = {0x01, 0x80, 0xc2, 0x00, 0x00};
  return std::memcmp(mac, kPrefix, sizeof kPrefix) == 0 && (mac[5] & 0xf0) == 0;
}

MacAddress mac_of(const PortConfig& config, size_t port) {
  if (!config.mac.is_zero()) return config.mac;
  return {{0x02, 0x00, 0x5f, 0x00, static_cast<uint8_t>(port >> 8), static_cast<uint8_t>(port)}};
}

/// Each port has a random stream of its own, so that one more port does not change what happens at the others.
uint64_t seed_of(uint64_t seed, size_t port) { return SeededRandom(seed + port * 0xD1342543DE82EF95u).next_u64(); }

}  // namespace

const char* drop_name(Drop drop) {
  constexpr const char* kNames[kDropCount] = {
      "runt",          "too-long", "mac-control",  "reserved-mac", "port-down",     "no-route",        "same-port",
      "flood-blocked", "headroom", "egress-share", "buffer-full",  "no-descriptor", "no-frame-memory", "watchdog"};
  return kNames[static_cast<unsigned>(drop)];
}

Switch::PortState::PortState(const PortConfig& port_config, const SwitchConfig& config, uint64_t seed)
    : egress(port_config.priorities ? *port_config.priorities : config.priorities, config.dwrr_quantum_bytes),
      cap(port_config.rate_cap, port_config.rate_cap_burst_bytes),
      bits_per_second(port_config.bits_per_second),
      refresh_interval(nanoseconds(pause_time(config.pause_quanta, bits_per_second).ns / 2)),
      random(seed),
      flood(port_config.flood),
      send_pfc(port_config.send_pfc),
      obey_pfc(port_config.obey_pfc) {
  const PriorityConfigs& priorities = port_config.priorities ? *port_config.priorities : config.priorities;
  for (unsigned i = 0; i < kPriorities; i++) {
    marking[i] = EcnMarker(priorities[i].ecn, bits_per_second);
  }
}

Switch::Switch(const SwitchConfig& config, FramePool& pool, RandomSource& random, Listener* listener)
    : pool_(pool),
      listener_(listener),
      config_(config),
      hash_seed_(random.next_u64()),
      forwarding_(config, random.next_u64()),
      buffer_(config),
      queues_(config.max_frames) {
  const uint64_t seed = random.next_u64();
  ports_.reserve(config.ports.size());
  for (size_t i = 0; i < config.ports.size(); i++) {
    ports_.emplace_back(config.ports[i], config, seed_of(seed, i));
    ports_.back().mac = mac_of(config.ports[i], i);
  }
}

Switch::~Switch() {
  for (PortState& port : ports_) {
    for (unsigned i = 0; i < kPriorities; i++) {
      while (port.egress.bytes(i) != 0) {
        const uint32_t index = port.egress.pop(queues_, i);
        pool_.release(queues_[index].frame);
        queues_.give_back(index);
      }
    }
  }
  ensure(queues_.used() == 0, "every frame in the queues is in the queue of a port");
}

uint8_t Switch::classify(const FrameFields& fields) const {
  if (fields.tagged) return config_.pcp_priority[fields.pcp];
  return fields.ip_version != 0 ? config_.dscp_priority[fields.dscp()] : 0;
}

void Switch::drop(PortState& port, Drop why, const FabricFrame& frame) {
  port.counters.drops[static_cast<unsigned>(why)]++;
  pool_.release(frame);
}

void Switch::on_frame(PortId id, FabricFrame frame, Instant now) {
  ensure(id < ports_.size(), "a frame arrives at a port that is there");
  PortState& port = ports_[id];
  port.counters.rx_frames++;
  port.counters.rx_bytes += frame.bytes;
  if (!port.up) return drop(port, Drop::kPortDown, frame);
  if (frame.bytes < kEthernetBytes) return drop(port, Drop::kRunt, frame);
  if (is_mac_control(frame.view())) return on_mac_control(port, id, frame, now);
  if (frame.bytes > config_.max_frame_bytes) return drop(port, Drop::kTooLong, frame);
  if (is_reserved_mac(frame.data)) return drop(port, Drop::kReservedMac, frame);
  const FrameFields fields = inspect(frame.view());
  const uint8_t priority = classify(fields);
  // At a port outside the flooding tree, a frame may have come around a loop, so its address is not learned.
  if (port.flood) forwarding_.learn(frame.data + 6, id, now);
  if ((frame.data[0] & 1) != 0) return flood(id, frame, fields, priority, now);
  forward(id, frame, fields, priority, now);
}

void Switch::forward(PortId from, const FabricFrame& frame, const FrameFields& fields, uint8_t priority, Instant now) {
  PortState& port = ports_[from];
  const Destination destination = forwarding_.find(frame.data, now);
  if (destination.kind == Destination::Kind::kUnknown) {
    if (!config_.flood_unknown) return drop(port, Drop::kNoRoute, frame);
    return flood(from, frame, fields, priority, now);
  }
  PortId to = destination.port;
  if (destination.kind == Destination::Kind::kGroup) {
    const auto chosen = forwarding_.choose(destination.group, flow_hash(frame.view(), fields, hash_seed_));
    if (!chosen) return drop(port, Drop::kPortDown, frame);
    to = *chosen;
  }
  if (to == from) return drop(port, Drop::kSamePort, frame);
  if (!ports_[to].up) return drop(port, Drop::kPortDown, frame);
  enqueue(from, to, frame, fields, priority, now);
}

void Switch::flood(PortId from, const FabricFrame& frame, const FrameFields& fields, uint8_t priority, Instant now) {
  PortState& port = ports_[from];
  if (!port.flood) return drop(port, Drop::kFloodBlocked, frame);
  constexpr uint32_t kNobody = UINT32_MAX;
  uint32_t last = kNobody;  // this port gets the original; all before it get copies
  for (uint32_t to = 0; to < ports_.size(); to++) {
    if (to == from || !ports_[to].flood || !ports_[to].up) continue;
    if (last != kNobody) {
      port.counters.flood_copies++;
      const FabricFrame copy = pool_.clone(frame);
      if (copy) {
        enqueue(from, static_cast<PortId>(last), copy, fields, priority, now);
      } else {
        port.counters.drops[static_cast<unsigned>(Drop::kNoFrameMemory)]++;
      }
    }
    last = to;
  }
  if (last == kNobody) return drop(port, Drop::kNoRoute, frame);
  port.counters.flooded++;
  enqueue(from, static_cast<PortId>(last), frame, fields, priority, now);
}

void Switch::enqueue(PortId from, PortId to, const FabricFrame& frame, const FrameFields& fields, uint8_t priority,
                     Instant now) {
  PortState& in = ports_[from];
  PortState& out = ports_[to];
  ensure(from != to && out.up, "a frame leaves by another port, which is up");
  std::optional<Drop> why = buffer_.take(from, priority, frame.bytes, out.egress.bytes(priority));
  if (!why) {
    const uint32_t index =
        queues_.take({frame, 0, from, fields.l3_offset, fields.ip_version, fields.traffic_class, priority});
    if (index == FrameQueues::kNone) {
      buffer_.give_back(from, priority, frame.bytes);
      why = Drop::kNoDescriptor;
    } else {
      out.egress.push(queues_, priority, index);
      uint64_t& most = out.counters.max_queue_bytes[priority];
      most = std::max(most, out.egress.bytes(priority));
    }
  }
  const bool xoff = in.send_pfc && buffer_.check_xoff(from, priority, why.has_value());
  // A change that was not yet announced to the neighbour is cancelled by the opposite change.
  if (xoff) in.pause_changes = static_cast<uint8_t>(in.pause_changes ^ priority_bit(priority));
  if (why) {
    drop(in, *why, frame);
  } else {
    notify(to, now);
  }
  if (xoff) notify(from, now);
}

void Switch::notify(PortId id, Instant now) {
  PortState& port = ports_[id];
  if (!port.waiting || listener_ == nullptr) return;
  port.waiting = false;
  listener_->on_port_ready(id, now);
}

FabricFrame Switch::poll_transmit(PortId id, Instant now) {
  PortState& port = ports_[id];
  FabricFrame frame;
  if (port.up) {
    // Pause frames do not wait for the rate cap, because the buffer is filling up.
    if (pause_frame_due(port, now)) frame = next_pause_frame(port, id, now);
    if (!frame && !port.egress.empty() && port.cap.may_send(now)) {
      const unsigned priority = port.egress.pick(queues_, blocked(port, now));
      if (priority != kPriorities) frame = dequeue(port, priority, now);
    }
  }
  if (!frame) {
    port.waiting = true;
    if (!port.egress.empty()) plan_wake(port, now);
    return frame;
  }
  return counted(port, frame, now);
}

FabricFrame Switch::poll_pause_frame(PortId id, Instant now) {
  PortState& port = ports_[id];
  if (!port.up || !pause_frame_due(port, now)) return {};
  const FabricFrame frame = next_pause_frame(port, id, now);
  return frame ? counted(port, frame, now) : frame;
}

FabricFrame Switch::counted(PortState& port, const FabricFrame& frame, Instant now) {
  port.cap.on_sent(frame.bytes, now);
  port.counters.tx_frames++;
  port.counters.tx_bytes += frame.bytes;
  return frame;
}

FabricFrame Switch::dequeue(PortState& port, unsigned priority, Instant now) {
  const uint32_t index = port.egress.pop(queues_, priority);
  const QueuedFrame queued = queues_[index];
  ensure(queued.priority == priority, "a frame leaves by the queue that it was put in");
  queues_.give_back(index);
  port.counters.tx_priority_frames[priority]++;
  port.counters.tx_priority_bytes[priority] += queued.frame.bytes;
  mark(port, priority, queued);
  forget(queued, now);
  return queued.frame;
}

void Switch::mark(PortState& port, unsigned priority, const QueuedFrame& queued) {
  if (!port.marking[priority].marks(port.egress.bytes(priority), port.random)) return;
  FrameFields fields;
  fields.ip_version = queued.ip_version;
  fields.l3_offset = queued.l3_offset;
  fields.traffic_class = queued.traffic_class;
  FabricFrame frame = queued.frame;
  if (mark_congestion(frame.view(), fields)) {
    port.counters.ecn_marked++;
  } else {
    port.counters.ecn_not_capable++;
  }
}

void Switch::forget(const QueuedFrame& queued, Instant now) {
  buffer_.give_back(queued.ingress, queued.priority, queued.frame.bytes);
  if (!buffer_.check_xon(queued.ingress, queued.priority)) return;
  PortState& in = ports_[queued.ingress];
  in.pause_changes = static_cast<uint8_t>(in.pause_changes ^ priority_bit(queued.priority));
  if (in.pause_changes != 0) notify(queued.ingress, now);
}

void Switch::discard_queue(PortState& port, unsigned priority, Drop why, Instant now) {
  while (port.egress.bytes(priority) != 0) {
    const uint32_t index = port.egress.pop(queues_, priority);
    const QueuedFrame queued = queues_[index];
    queues_.give_back(index);
    drop(port, why, queued.frame);
    forget(queued, now);
  }
}

bool Switch::add_route(const MacAddress& mac, std::span<const PortId> ports) {
  return forwarding_.add_route(mac, ports);
}

void Switch::set_rate_cap(PortId port, uint64_t bits_per_second, uint32_t burst_bytes) {
  ports_[port].cap = RateCap(bits_per_second, burst_bytes);
  // The next on_time finds a port that waited for the old cap.
  wake_at_ = {INT64_MIN};
}

}  // namespace uroce::fabric
