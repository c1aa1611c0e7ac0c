#include "fabric/shared_buffer.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace uroce::fabric {

SharedBuffer::SharedBuffer(const SwitchConfig& config)
    : groups_(config.ports.size() * kPriorities),
      reserved_(config.reserved_bytes),
      xon_offset_(config.xon_offset_bytes),
      pfc_alpha_1024_(static_cast<uint64_t>(std::llround(config.pfc_alpha * 1024))),
      lossy_alpha_1024_(static_cast<uint64_t>(std::llround(config.lossy_alpha * 1024))) {
  uint64_t set_aside = 0;
  for (size_t port = 0; port < config.ports.size(); port++) {
    const PortConfig& c = config.ports[port];
    const PriorityConfigs& priorities = c.priorities ? *c.priorities : config.priorities;
    for (unsigned i = 0; i < kPriorities; i++) {
      Group& g = group(static_cast<PortId>(port), i);
      g.lossless = priorities[i].lossless;
      if (!g.lossless) continue;
      g.headroom = headroom_of(config, c);
      set_aside += g.headroom + reserved_;
    }
  }
  shared_bytes_ = config.buffer_bytes > set_aside ? config.buffer_bytes - set_aside : 0;
}

bool SharedBuffer::take_lossless(Group& of, uint32_t bytes) {
  const uint64_t before = shared_part(of);
  const uint64_t all = of.bytes + bytes;
  const uint64_t after = all > reserved_ ? all - reserved_ : 0;
  // With an alpha above 1 the threshold is larger than what is free, so that has to be checked, too.
  const bool fits = after == 0 || (after <= pfc_threshold() && after - before <= shared_bytes_ - shared_used_);
  if (fits) {
    of.bytes = all;
    shared_used_ += after - before;
    ensure(shared_used_ <= shared_bytes_, "no more is taken of what all share than there is");
    return true;
  }
  if (of.headroom_used + bytes > of.headroom) return false;
  of.headroom_used += bytes;
  return true;
}

std::optional<Drop> SharedBuffer::take(PortId ingress, unsigned priority, uint32_t bytes, uint64_t queue_bytes) {
  Group& g = group(ingress, priority);
  if (g.lossless) return take_lossless(g, bytes) ? std::nullopt : std::optional(Drop::kHeadroom);
  if (bytes > shared_bytes_ - shared_used_) return Drop::kBufferFull;
  if (queue_bytes + bytes > lossy_threshold()) return Drop::kEgressShare;
  g.bytes += bytes;
  shared_used_ += bytes;
  ensure(shared_used_ <= shared_bytes_, "no more is taken of what all share than there is");
  return std::nullopt;
}

void SharedBuffer::give_back(PortId ingress, unsigned priority, uint32_t bytes) {
  Group& g = group(ingress, priority);
  ensure(g.bytes + g.headroom_used >= bytes, "what is given back was taken");
  if (!g.lossless) {
    g.bytes -= bytes;
    shared_used_ -= bytes;
    return;
  }
  // The headroom is given back first, because it has to be empty again before the next pause needs it.
  const uint64_t from_headroom = std::min<uint64_t>(g.headroom_used, bytes);
  g.headroom_used -= from_headroom;
  const uint64_t before = shared_part(g);
  g.bytes -= bytes - from_headroom;
  shared_used_ -= before - shared_part(g);
}

bool SharedBuffer::check_xoff(PortId ingress, unsigned priority, bool refused) {
  Group& g = group(ingress, priority);
  if (!g.lossless || g.paused) return false;
  const uint64_t shared = shared_part(g);
  // A group that holds nothing is never paused, because no frame would leave it, which is what ends a pause.
  g.paused = g.headroom_used > 0 || (shared > 0 && shared >= pfc_threshold()) || (refused && g.bytes > 0);
  return g.paused;
}

bool SharedBuffer::check_xon(PortId ingress, unsigned priority) {
  Group& g = group(ingress, priority);
  if (!g.paused || g.headroom_used > 0) return false;
  const uint64_t shared = shared_part(g);
  if (shared > 0 && shared + xon_offset_ > pfc_threshold()) return false;
  g.paused = false;
  return true;
}

}  // namespace uroce::fabric
