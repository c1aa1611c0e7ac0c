#include "segment/deliveries.h"

#include <utility>

namespace uroce::segment {

/// False: there is no room for another peer, and the frame is dropped.
bool Deliveries::meet(Peer& peer, PooledFrame frame, Instant now) {
  if (introductions_.make_contact(peer, now)) {
    counters_.contacts++;
    return true;
  }
  pool_.give_back(frame.frame);
  counters_.tx_dropped_full++;
  return false;
}

/// The frame waits, or was dropped.
void Deliveries::note_not_sent(Peer& peer, LaneSender::Sent sent) {
  Lane& lane = *peer.lane;
  if (sent == LaneSender::Sent::kDropped) {
    (lane.sender.stuck() ? counters_.tx_dropped_stuck : counters_.tx_dropped_full)++;
  } else if (!std::exchange(lane.queued, true)) {
    waiting_.push_back(&peer);
  }
}

void Deliveries::retry() {
  for (Peer* peer : waiting_) {
    const uint64_t before = peer->lane->sender.produced();
    peer->lane->sender.flush();
    peer->lane->queued = peer->lane->sender.waiting();
    if (peer->lane->sender.produced() != before) bells_.sent_to(*peer);
  }
  bells_.ring();
  std::erase_if(waiting_, [](const Peer* peer) { return !peer->lane->queued; });
}

}  // namespace uroce::segment
