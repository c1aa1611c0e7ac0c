// Checks now and then whether the peers are alive, and whether they read what is sent to them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "segment/peers.h"
#include "uroce/time.h"

namespace uroce::segment {

class PeerChecks {
 public:
  /// `peers` outlive the checks.
  explicit PeerChecks(Peers& peers) : peers_(peers) {}

  /// Checks the peers whose turn it is. Returns one that is gone, and from which nothing is left to be received;
  /// nullptr when there is none. To be called again after that peer was removed.
  Peer* find_gone(Instant now);
  /// Cleans up, seldom, after dead members that had no contact: all members together do it often enough.
  void tidy(Instant now);
  uint64_t dropped_stuck() const { return dropped_stuck_; }

 private:
  bool is_gone(Peer& peer, Instant now);
  bool has_ended(Peer& peer, Instant now);

  Peers& peers_;
  Instant next_check_{0};
  Instant next_tidy_{0};
  size_t last_checked_ = 0;
  uint64_t dropped_stuck_ = 0;
};

}  // namespace uroce::segment
