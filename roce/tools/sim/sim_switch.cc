#include "sim/sim_switch.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace uroce::sim {

SimSwitch::SimSwitch(EventQueue& events, const fabric::SwitchConfig& config, RandomSource& random)
    : events_(events), switch_(config, pool_, random, this) {
  for (size_t i = 0; i < config.ports.size(); i++) {
    ports_.push_back(std::make_unique<SwitchPort>(*this, static_cast<fabric::PortId>(i)));
  }
  ensure(ports_.size() == switch_.port_count(), "each port of the switch can have a cable");
}

void SimSwitch::on_frame(fabric::PortId port, Frame&& frame) {
  switch_.on_frame(port, SimFramePool::to_fabric(std::move(frame)), events_.now());
  watch_time();
}

/// Gives the wire what it can take now. The switch reports when a port that had nothing to send has something again;
/// when the wire is busy, an event is scheduled here.
void SimSwitch::pump(SwitchPort& port, Instant now) {
  if (port.scheduled || port.egress == nullptr) return;
  while (port.egress->ready_at() <= now) {
    const fabric::FabricFrame frame = switch_.poll_transmit(port.number, now);
    if (!frame) return;
    port.egress->deliver(SimFramePool::from_fabric(frame));
  }
  port.scheduled = true;
  events_.schedule(*this, port.egress->ready_at(), Event{Event::Kind::kWireFree, port.number});
}

void SimSwitch::watch_time() {
  const Instant wanted = switch_.next_event();
  if (timer_at_ <= wanted) return;
  timer_at_ = std::max(wanted, events_.now() + nanoseconds(1));
  events_.schedule(*this, timer_at_, Event{Event::Kind::kTimer});
}

void SimSwitch::on_event(Event event, Instant now) {
  switch (event.kind) {
    case Event::Kind::kWireFree:
      on_wire_free(*ports_[event.port], now);
      break;
    case Event::Kind::kTimer:
      on_timer(now);
      break;
  }
  watch_time();
}

void SimSwitch::on_wire_free(SwitchPort& port, Instant now) {
  ensure(port.scheduled, "the wire that is free was waited for");
  port.scheduled = false;
  pump(port, now);
}

void SimSwitch::on_timer(Instant now) {
  if (timer_at_ != now) return;
  timer_at_ = Instant::never();
  switch_.on_time(now);
}

uint64_t SimSwitch::queue_bytes(fabric::PortId port) const {
  uint64_t bytes = 0;
  for (unsigned priority = 0; priority < kPriorities; priority++) bytes += switch_.queue_bytes(port, priority);
  return bytes;
}

}  // namespace uroce::sim
