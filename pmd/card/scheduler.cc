#include "pmd/card/scheduler.h"

#include <algorithm>

#include "pmd/hw/registers.h"

namespace mqnic::card {

Scheduler::Scheduler(unsigned channels, uint8_t default_destination)
    : channels_(channels),
      line_(channels),
      destination_(default_destination),
      default_destination_(default_destination) {}

void Scheduler::schedule(uint16_t channel) {
  Channel& state = channels_[channel];
  if (state.scheduled || !state.may_send()) return;
  state.scheduled = true;
  size_t end = first_ + waiting_;
  if (end >= line_.size()) end -= line_.size();
  line_[end] = channel;
  ++waiting_;
}

void Scheduler::doorbell(uint16_t channel) {
  channels_[channel].active = true;
  schedule(channel);
}

void Scheduler::idle() {
  channels_[line_[first_]].active = false;
  drop_front();
}

uint32_t Scheduler::read_channel(size_t channel) const {
  namespace reg = scheduler_round_robin;
  const Channel& state = channels_[channel];
  return (state.enabled ? reg::kChannelEnable : 0) | (state.active ? reg::kChannelActive : 0) |
         (state.scheduled ? reg::kChannelScheduled : 0);
}

bool Scheduler::write_channel(size_t channel, uint32_t value) {
  Channel& state = channels_[channel];
  state.enabled = (value & scheduler_round_robin::kChannelEnable) != 0;
  schedule(static_cast<uint16_t>(channel));
  return true;
}

void Scheduler::reset() {
  std::fill(channels_.begin(), channels_.end(), Channel{});
  first_ = waiting_ = 0;
  enabled_ = false;
  destination_ = default_destination_;
}

}  // namespace mqnic::card
