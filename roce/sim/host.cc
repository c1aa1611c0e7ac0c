#include "sim/host.h"

#include <algorithm>

namespace uroce::sim {

Host::Host(EventQueue& events, const EngineConfig& config, uint64_t seed)
    : events_(events),
      random_(seed),
      port_(config.max_frame_bytes, *this),
      engine_(config, port_, random_, observer_) {}

void Host::wake_at(Instant when) {
  if (wakes_at_ <= when) return;
  wakes_at_ = when;
  events_.schedule(*this, when);
}

void Host::on_event(uint64_t /*what*/, Instant now) {
  if (wakes_at_ <= now) wakes_at_ = Instant::never();
  engine_.turn(now);
  if (program_) program_();
  if (port_.has_received() || engine_.wants_transmit()) {
    wake_at(now + std::max(turn_delay_, nanoseconds(1)));
  } else if (engine_.next_timeout() != Instant::never()) {
    wake_at(std::max(engine_.next_timeout(), now + nanoseconds(1)));
  }
}

}  // namespace uroce::sim
