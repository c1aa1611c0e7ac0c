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
  void deliver(Peer& peer, PooledFrame frame, Instant now) {
    if (!peer.lane && !meet(peer, frame, now)) return;
    const LaneSender::Sent sent = peer.lane->sender.send(frame);
    if (sent != LaneSender::Sent::kInRing) [[unlikely]]
      note_not_sent(peer, sent);
    bells_.sent_to(peer);
  }
  /// Tries the waiting frames again.
  void retry();
  bool any_waiting() const { return !waiting_.empty(); }
  void forget(Peer& peer) { std::erase(waiting_, &peer); }

 private:
  bool meet(Peer& peer, PooledFrame frame, Instant now);
  void note_not_sent(Peer& peer, LaneSender::Sent sent);

  Introductions& introductions_;
  FramePool& pool_;
  Bells& bells_;
  SegmentCounters& counters_;
  std::vector<Peer*> waiting_;  // have frames in their backlog
};

}  // namespace uroce::segment
