// Where the frames of a queue pair go, kept with what its port knows of that destination (NextHop).
#pragma once

#include <cstdint>

#include "uroce/address.h"
#include "uroce/port.h"

namespace uroce {

/// Of one destination at a time. Whoever leads it to another one need not say so to anybody: the hop is forgotten.
class PeerLink {
 public:
  const MacAddress& mac() const { return mac_; }
  uint32_t qpn() const { return qpn_; }

  void lead_to(const MacAddress& mac, uint32_t qpn) {
    if (mac == mac_ && qpn == qpn_) return;
    mac_ = mac;
    qpn_ = qpn;
    asked_at_ = kNever;
  }

  /// What they say of the destination, who are asked again when their `epoch` is another one.
  const NextHop& hop(NextHops& hops, uint64_t epoch) {
    if (asked_at_ != epoch) {
      hop_ = hops.find(mac_, qpn_);
      asked_at_ = epoch;
    }
    return hop_;
  }

 private:
  static constexpr uint64_t kNever = 0;  // no epoch of a port

  MacAddress mac_;
  uint32_t qpn_ = 0;
  uint64_t asked_at_ = kNever;
  NextHop hop_;
};

}  // namespace uroce
