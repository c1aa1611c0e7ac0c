// Puts frames into the lanes of their receivers. Frames that find no room wait there, and are tried again.
#pragma once

#include <vector>

#include "segment/bells.h"
#include "segment/frame_pool.h"
#include "segment/introductions.h"
#include "segment/peers.h"
#include "segment/segment_counters.h"
#include "uroce/time.h"

namespace uroce::segment {

class Deliveries {
 public:
  /// All of them outlive the deliveries.
  Deliveries(Introductions& introductions, FramePool& pool, Bells& bells, SegmentCounters& counters)
      : introductions_(introductions), pool_(pool), bells_(bells), counters_(counters) {}

  /// Takes the frame. The first frame for a peer makes contact with it.
  void deliver(Peer& peer, PooledFrame frame, Instant now);
  /// Tries the waiting frames again.
  void retry();
  bool any_waiting() const { return !waiting_.empty(); }
  void forget(Peer& peer) { std::erase(waiting_, &peer); }

 private:
  Introductions& introductions_;
  FramePool& pool_;
  Bells& bells_;
  SegmentCounters& counters_;
  std::vector<Peer*> waiting_;  // have frames in their backlog
};

}  // namespace uroce::segment
