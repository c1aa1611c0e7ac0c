#include "engine/priority_flow_control.h"

#include <algorithm>

namespace uroce {

PriorityFlowControl::PriorityFlowControl(const PfcConfig& config, const MacAddress& mac, Counters& counters)
    : config_(config), mac_(mac), counters_(counters) {}

bool PriorityFlowControl::on_frame(std::span<const uint8_t> frame, Instant now) {
  if (!is_mac_control(frame)) return false;
  auto pause = decode_pause(frame);
  const bool heeded = pause && (pause->per_priority ? config_.lossless != 0 : config_.link_pause);
  if (!heeded) {
    counters_.rx_drop_mac_control++;
    return true;
  }
  counters_.rx_pause_frames++;
  if (pause->per_priority) pause->priorities &= config_.lossless;
  clock_.on_pause(*pause, config_.bits_per_second, now);
  account(clock_.paused(now), now);
  return true;
}

void PriorityFlowControl::account(uint8_t paused, Instant now) {
  const auto changed = static_cast<uint8_t>(paused ^ paused_);
  for (unsigned i = 0; changed != 0 && i < kPriorities; i++) {
    if ((changed & priority_bit(i)) == 0) continue;
    if ((paused & priority_bit(i)) != 0) {
      paused_since_[i] = now;
    } else {
      paused_for_[i].ns += (now - paused_since_[i]).ns;
    }
  }
  paused_ = paused;
}

void PriorityFlowControl::on_backlog(uint32_t frames, Instant now) {
  if (config_.lossless == 0) return;
  const bool pause = pausing_ ? frames > config_.xon_frames : frames >= config_.xoff_frames;
  if (pause == pausing_) return;
  pausing_ = pause;
  // Decided and revoked before it was sent: the neighbour need not be told.
  changed_ = !changed_;
  repeat_at_ = pause || changed_ ? now : Instant::never();
}

bool PriorityFlowControl::poll_transmit(TxFrame& frame, Instant now) {
  if (!wants_transmit(now)) return false;
  Pause pause;
  pause.src_mac = mac_;
  pause.priorities = config_.lossless;
  pause.quanta.fill(pausing_ ? config_.quanta : uint16_t{0});
  frame.bytes = encode_pause({frame.data, frame.capacity}, pause);
  if (changed_ && pausing_) pauses_begun_++;
  changed_ = false;
  const Duration lasts = pause_time(config_.quanta, config_.bits_per_second);
  repeat_at_ = pausing_ ? now + Duration{std::max<int64_t>(lasts.ns / 2, 1)} : Instant::never();
  counters_.tx_pause_frames++;
  return frame.bytes != 0;
}

Instant PriorityFlowControl::next_event() const {
  Instant next = std::min(repeat_at_, restore_at_);
  if (paused_ == 0) return next;
  next = std::min(next, clock_.next_resume());
  if (config_.watchdog.ns == 0) return next;
  for (unsigned i = 0; i < kPriorities; i++) {
    if ((paused() & priority_bit(i)) != 0) next = std::min(next, paused_since_[i] + config_.watchdog);
  }
  return next;
}

void PriorityFlowControl::on_time(Instant now) {
  if (paused_ != 0) account(clock_.paused(now), now);
  if (config_.watchdog.ns != 0) run_watchdog(now);
}

void PriorityFlowControl::run_watchdog(Instant now) {
  if (now >= restore_at_) {
    restore_at_ = Instant::never();
    ignored_ = 0;
    // Those that are still paused get a new chance, counted from here.
    const uint8_t still = paused_;
    account(0, now);
    account(still, now);
  }
  for (unsigned i = 0; i < kPriorities; i++) {
    if ((paused() & priority_bit(i)) == 0 || now < paused_since_[i] + config_.watchdog) continue;
    ignored_ = static_cast<uint8_t>(ignored_ | priority_bit(i));
    counters_.pfc_watchdog_fired++;
    restore_at_ = std::min(restore_at_, now + config_.watchdog_restore);
  }
}

}  // namespace uroce
