#include "segment/bells.h"

#include <atomic>

namespace uroce::segment {

/// False when the peer sleeps and cannot be woken at the moment. A peer that is not known yet is woken by a hello.
bool Bells::ring(Peer& peer) {
  Lane& lane = *peer.lane;
  lane.sender.publish();
  if (lane.base() == nullptr) return true;
  const uint32_t sleeps = lane.base()->sleeps.load(std::memory_order_relaxed);
  if ((sleeps & 1) == 0 || sleeps == lane.woken) return true;
  Letter letter;
  letter.from = own_;
  // It may be our own socket that has no room, full of letters that their receivers do not read.
  if (mailbox_.send(peer.id, letter) == Mailbox::Sent::kFull) return false;
  lane.woken = sleeps;
  wakes_sent_++;
  return true;
}

/// Not immediately after a burst: waiting until other processors see what this one wrote takes longer than sending a
/// frame.
void Bells::ring_again() {
  if (sent_to_.empty()) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::erase_if(sent_to_, [this](Peer* peer) {
    const bool done = ring(*peer);
    peer->lane->bell = !done;
    return done;
  });
}

}  // namespace uroce::segment
