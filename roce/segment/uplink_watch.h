// Whether a host's way out of the machine is there: its uplink lives, and says that its link is up.
#pragma once

#include <atomic>

#include "segment/peers.h"
#include "uroce/time.h"

namespace uroce::segment {

class UplinkWatch {
 public:
  /// `peers` outlive the watch. `own`: this member.
  UplinkWatch(Peers& peers, const MemberCard& own) : peers_(peers), mac_(own.mac), role_(own.role) {}

  /// Looks a few times a second.
  void look(Instant now) {
    if (role_ != Role::kProgram || now < next_look_) return;
    next_look_ = now + kPeriod;
    peers_.refresh();
    const Peer* const uplink = peers_.station_of(mac_);
    up_.store(uplink != nullptr && uplink->link_up && peers_.alive(*uplink), std::memory_order_relaxed);
  }
  /// As of the last look; false for a host that has no uplink. Any thread may ask.
  bool up() const { return up_.load(std::memory_order_relaxed); }

 private:
  static constexpr Duration kPeriod = milliseconds(200);

  Peers& peers_;
  const MacAddress mac_;
  const Role role_;
  Instant next_look_{0};
  std::atomic<bool> up_{false};
};

}  // namespace uroce::segment
