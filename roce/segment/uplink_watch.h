// What a host's way out of the machine reports: whether the uplink lives and its link is up, and its addresses.
#pragma once

#include <atomic>
#include <vector>

#include "segment/peers.h"
#include "uroce/time.h"

namespace uroce::segment {

class UplinkWatch {
 public:
  /// `peers` outlive the watch. `own`: this member.
  UplinkWatch(Peers& peers, const MemberRecord& own) : peers_(peers), mac_(own.mac), role_(own.role) {}

  /// Looks a few times a second.
  void look(Instant now) {
    if (role_ != Role::kProgram || now < next_look_) return;
    next_look_ = now + kPeriod;
    peers_.refresh();
    const Peer* const uplink = peers_.station_of(mac_);
    up_.store(uplink != nullptr && uplink->link_up && peers_.life(*uplink) != Directory::Life::kNo,
              std::memory_order_relaxed);
    if (uplink == nullptr || uplink->role != Role::kUplink) return;
    if (uplink->addresses == addresses_ && uplink->mtu == mtu_) return;
    addresses_ = uplink->addresses;
    mtu_ = uplink->mtu;
    news_.store(true, std::memory_order_relaxed);
  }
  /// As of the last look; false for a host that has no uplink. Any thread may ask.
  bool up() const { return up_.load(std::memory_order_relaxed); }
  /// True once after the uplink's addresses or MTU have changed. Any thread may ask.
  bool take_news() const {
    return news_.load(std::memory_order_relaxed) && news_.exchange(false, std::memory_order_relaxed);
  }
  /// The uplink's addresses as last published; empty as long as there was none.
  const std::vector<LocalAddress>& addresses() const { return addresses_; }

  /// The uplink's IP MTU as last published; 0 as long as there was none.
  uint32_t mtu() const { return mtu_; }

 private:
  static constexpr Duration kPeriod = milliseconds(200);

  Peers& peers_;
  const MacAddress mac_;
  const Role role_;
  Instant next_look_{0};
  std::atomic<bool> up_{false};
  mutable std::atomic<bool> news_{false};
  std::vector<LocalAddress> addresses_;
  uint32_t mtu_ = 0;
};

}  // namespace uroce::segment
