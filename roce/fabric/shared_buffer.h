// Decides whether a frame may still enter the buffer, and which senders have to be paused.
//
// Each lossless pair of an ingress port and a priority is a group. The buffer is divided into a reserve for each group,
// a headroom for each group, and the rest, which all share. A group takes from the shared part up to `pfc_alpha` times
// the free part of it at that moment, so that few groups get much and many get little; beyond that it has to be paused,
// and frames that still arrive go to its headroom. A lossy frame takes from the shared part as long as its egress queue
// holds no more than `lossy_alpha` times what is free.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "fabric/switch_config.h"
#include "fabric/switch_counters.h"

namespace uroce::fabric {

class SharedBuffer {
 public:
  explicit SharedBuffer(const SwitchConfig& config);

  /// Takes room for a frame, or says why there is none. `queue_bytes` is the length of the egress queue without this
  /// frame.
  std::optional<Drop> take(PortId ingress, unsigned priority, uint32_t bytes, uint64_t queue_bytes);
  void give_back(PortId ingress, unsigned priority, uint32_t bytes);

  /// To be called after `take`. True when the neighbour is to be paused and was not; from then on it counts as paused.
  /// `refused`: there was no room for the frame.
  bool check_xoff(PortId ingress, unsigned priority, bool refused);
  /// To be called after `give_back`. True when the pause may end; from then on the neighbour does not count as paused.
  bool check_xon(PortId ingress, unsigned priority);

  bool lossless(PortId ingress, unsigned priority) const { return group(ingress, priority).lossless; }
  bool paused(PortId ingress, unsigned priority) const { return group(ingress, priority).paused; }
  /// Bytes of this ingress priority that are queued anywhere in the switch.
  uint64_t ingress_bytes(PortId ingress, unsigned priority) const {
    return group(ingress, priority).bytes + group(ingress, priority).headroom_used;
  }
  uint64_t headroom_used(PortId ingress, unsigned priority) const { return group(ingress, priority).headroom_used; }
  uint64_t shared_bytes() const { return shared_bytes_; }
  uint64_t shared_used() const { return shared_used_; }
  /// How much of the shared part a lossless group may hold at this moment.
  uint64_t pfc_threshold() const { return (shared_bytes_ - shared_used_) * pfc_alpha_1024_ >> 10; }
  uint64_t lossy_threshold() const { return (shared_bytes_ - shared_used_) * lossy_alpha_1024_ >> 10; }

 private:
  struct Group {
    uint64_t bytes = 0;  // in the reserve and the shared part
    uint64_t headroom_used = 0;
    uint64_t headroom = 0;
    bool lossless = false;
    bool paused = false;
  };

  const Group& group(PortId port, unsigned priority) const { return groups_[port * kPriorities + priority]; }
  Group& group(PortId port, unsigned priority) { return groups_[port * kPriorities + priority]; }
  uint64_t shared_part(const Group& of) const { return of.bytes > reserved_ ? of.bytes - reserved_ : 0; }
  bool take_lossless(Group& of, uint32_t bytes);

  std::vector<Group> groups_;
  uint64_t reserved_;
  uint64_t xon_offset_;
  uint64_t pfc_alpha_1024_;
  uint64_t lossy_alpha_1024_;
  uint64_t shared_bytes_ = 0;
  uint64_t shared_used_ = 0;
};

}  // namespace uroce::fabric
