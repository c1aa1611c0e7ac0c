#include "segment/deliveries.h"

#include <utility>

namespace uroce::segment {

void Deliveries::deliver(Peer& peer, PooledFrame frame, Instant now) {
  if (!peer.lane) {
    if (!introductions_.make_contact(peer, now)) {
      pool_.give_back(frame.frame);
      counters_.tx_dropped_full++;
      return;
    }
    counters_.contacts++;
  }
  Lane& lane = *peer.lane;
  switch (lane.sender.send(frame)) {
    case LaneSender::Sent::kInRing:
      break;
    case LaneSender::Sent::kWaits:
      if (!std::exchange(lane.queued, true)) waiting_.push_back(&peer);
      break;
    case LaneSender::Sent::kDropped:
      (lane.sender.stuck() ? counters_.tx_dropped_stuck : counters_.tx_dropped_full)++;
      break;
  }
  bells_.sent_to(peer);
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
