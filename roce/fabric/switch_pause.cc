// The part of the switch that deals with pauses, in both directions, and with time.
#include "fabric/switch.h"

namespace uroce::fabric {
namespace {

/// How soon a pause frame is tried again when there was no memory for it. Soon, because frames are being dropped.
constexpr Duration kPauseFrameRetry = microseconds(1);

}  // namespace

void Switch::on_mac_control(PortState& port, PortId id, const FabricFrame& frame, Instant now) {
  const std::optional<Pause> pause = decode_pause(frame.view());
  if (!pause) return drop(port, Drop::kMacControl, frame);
  pool_.release(frame);
  port.counters.pause_frames_received++;
  if (!port.obey_pfc) return;
  for (unsigned i = 0; i < kPriorities; i++) {
    if ((pause->priorities & priority_bit(i)) == 0) continue;
    if (pause->quanta[i] != 0) port.counters.pauses_received[i]++;
    if (pause->quanta[i] == 0) port.counters.resumes_received[i]++;
  }
  account_pauses(port, now);  // a pause that has run out in the meantime has ended
  port.pauses.on_pause(*pause, port.bits_per_second, now);
  account_pauses(port, now);
  wake_by(port.pauses.next_resume());
  if (!port.egress.empty()) {
    plan_wake(port, now);
    if ((port.egress.waiting() & ~blocked(port, now)) != 0) notify(id, now);
  }
}

uint8_t Switch::blocked(PortState& port, Instant now) {
  account_pauses(port, now);
  return static_cast<uint8_t>(port.was_paused & ~port.ignore_pauses);
}

void Switch::account_pauses(PortState& port, Instant now) {
  const uint8_t paused = port.pauses.paused(now);
  const auto changed = static_cast<uint8_t>(paused ^ port.was_paused);
  if (changed == 0) return;
  for (unsigned i = 0; i < kPriorities; i++) {
    if ((changed & priority_bit(i)) == 0) continue;
    if ((paused & priority_bit(i)) != 0) {
      port.paused_since[i] = now;
    } else {
      port.counters.paused_ns[i] += static_cast<uint64_t>((now - port.paused_since[i]).ns);
    }
  }
  port.was_paused = paused;
}

uint64_t Switch::paused_ns(PortId id, unsigned priority, Instant now) {
  PortState& port = ports_[id];
  account_pauses(port, now);
  const uint64_t ended = port.counters.paused_ns[priority];
  if ((port.was_paused & priority_bit(priority)) == 0) return ended;
  return ended + static_cast<uint64_t>((now - port.paused_since[priority]).ns);
}

uint8_t Switch::paused_groups(PortId id) const {
  uint8_t groups = 0;
  for (unsigned i = 0; i < kPriorities; i++) {
    if (buffer_.paused(id, i)) groups = static_cast<uint8_t>(groups | priority_bit(i));
  }
  return groups;
}

FabricFrame Switch::next_pause_frame(PortState& port, PortId id, Instant now) {
  const FabricFrame frame = pool_.allocate(kPauseFrameBytes);
  if (!frame) {
    port.counters.pause_frames_unsent++;
    wake_by(now + kPauseFrameRetry);
    return frame;
  }
  const uint8_t paused = paused_groups(id);
  Pause pause;
  pause.src_mac = port.mac;
  pause.priorities = static_cast<uint8_t>(paused | port.pause_changes);
  for (unsigned i = 0; i < kPriorities; i++) {
    const bool on = (paused & priority_bit(i)) != 0;
    pause.quanta[i] = on ? config_.pause_quanta : 0;
    if ((port.pause_changes & priority_bit(i)) != 0) (on ? port.counters.xoff_sent : port.counters.xon_sent)[i]++;
  }
  encode_pause({frame.data, frame.bytes}, pause);
  port.counters.pause_frames_sent++;
  port.pause_changes = 0;
  port.refresh_at = paused != 0 ? now + port.refresh_interval : Instant::never();
  wake_by(port.refresh_at);
  return frame;
}

void Switch::on_time(Instant now) {
  if (now < wake_at_) return;
  wake_at_ = Instant::never();
  for (size_t i = 0; i < ports_.size(); i++) {
    PortState& port = ports_[i];
    if (!port.up) continue;
    account_pauses(port, now);
    if (config_.pfc_watchdog.ns != 0) run_watchdog(port, now);
    const bool sendable = (port.egress.waiting() & ~blocked(port, now)) != 0 && port.cap.may_send(now);
    if (sendable || pause_frame_due(port, now)) notify(static_cast<PortId>(i), now);
    plan_wake(port, now);
  }
}

// Plans only what is still to come. What is due already was announced, and a port that was not waiting is polled
// anyway.
void Switch::plan_wake(PortState& port, Instant now) {
  const auto plan = [this, now](Instant when) {
    if (now < when) wake_by(when);
  };
  plan(port.refresh_at);
  plan(port.restore_at);
  const uint8_t stopped = blocked(port, now);
  if (port.was_paused != 0) plan(port.pauses.next_resume());
  if (port.egress.empty()) return;
  plan(port.cap.ready_at());
  const auto stuck = static_cast<uint8_t>(stopped & port.egress.waiting());
  if (config_.pfc_watchdog.ns == 0 || stuck == 0) return;
  for (unsigned i = 0; i < kPriorities; i++) {
    if ((stuck & priority_bit(i)) != 0) wake_by(port.paused_since[i] + config_.pfc_watchdog);
  }
}

void Switch::run_watchdog(PortState& port, Instant now) {
  if (now >= port.restore_at) {
    port.restore_at = Instant::never();
    port.ignore_pauses = 0;
    // The queue gets a new chance, so the time counts from now.
    const uint8_t still = port.was_paused;
    port.was_paused = 0;
    for (unsigned i = 0; i < kPriorities; i++) {
      if ((still & priority_bit(i)) != 0)
        port.counters.paused_ns[i] += static_cast<uint64_t>((now - port.paused_since[i]).ns);
    }
    account_pauses(port, now);
  }
  const auto stuck = static_cast<uint8_t>(blocked(port, now) & port.egress.waiting());
  for (unsigned i = 0; i < kPriorities; i++) {
    if ((stuck & priority_bit(i)) == 0 || now < port.paused_since[i] + config_.pfc_watchdog) continue;
    port.counters.watchdog_fired[i]++;
    port.ignore_pauses = static_cast<uint8_t>(port.ignore_pauses | priority_bit(i));
    port.restore_at = now + config_.watchdog_restore;
    discard_queue(port, i, Drop::kWatchdog, now);
  }
}

void Switch::set_port_up(PortId id, bool up, Instant now) {
  PortState& port = ports_[id];
  if (port.up == up) return;
  port.up = up;
  forwarding_.set_port_up(id, up);
  port.pauses = {};
  account_pauses(port, now);
  port.ignore_pauses = 0;
  port.restore_at = port.refresh_at = Instant::never();
  if (up) {
    // The neighbour may be another one now, so it is told of all pauses.
    port.pause_changes = port.send_pfc ? paused_groups(id) : uint8_t{0};
    if (port.pause_changes != 0) notify(id, now);
    return;
  }
  for (unsigned i = 0; i < kPriorities; i++) discard_queue(port, i, Drop::kPortDown, now);
}

}  // namespace uroce::fabric
