#include "transport/tail_probe.h"

#include <algorithm>
#include <utility>

namespace uroce {

namespace {

constexpr Duration kSlack = microseconds(10);
constexpr uint8_t kProbeDoublings = 6;

}  // namespace

void TailProbe::reset() {
  packet_ = Packet::kNone;
  sent_ = 0;
  stop();
}

/// After so long a silence the last packet, or its answer, is taken to be lost.
Duration TailProbe::silence(const RttSampler& rtt) const {
  const Duration once{2 * rtt.smoothed().ns + ack_delay_.ns + kSlack.ns};
  return once * (int64_t{1} << std::min(sent_, kProbeDoublings));
}

bool TailProbe::expire(bool waiting, const RttSampler& rtt, Instant now) {
  if (now < due_) return false;
  stop();
  if (!waiting) return false;
  const Instant silent_for_long = active_at_ + silence(rtt);
  if (now < silent_for_long) {
    due_ = silent_for_long;
    return false;
  }
  packet_ = sent_ % 2 == 0 ? Packet::kLast : Packet::kFirst;
  if (sent_ < UINT8_MAX) sent_++;
  due_ = now + silence(rtt);
  active_at_ = now;
  return true;
}

TailProbe::Packet TailProbe::take() { return std::exchange(packet_, Packet::kNone); }

}  // namespace uroce
