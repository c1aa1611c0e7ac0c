#include "segment/bells.h"

#include <atomic>

namespace uroce::segment {

/// A peer that is not known yet has a hello in its mailbox, which wakes it.
void Bells::ring(Peer& peer) {
  Lane& lane = *peer.lane;
  if (lane.base() == nullptr) return;
  const uint32_t sleeps = lane.base()->sleeps.load(std::memory_order_relaxed);
  if ((sleeps & 1) == 0 || sleeps == lane.woken) return;
  lane.woken = sleeps;
  wakes_sent_++;
  Letter letter;
  letter.from = own_;
  // A mailbox that is full has something for which its owner wakes up.
  mailbox_.send(peer.id, letter);
}

/// Not at once after a burst: a processor that has to wait until others see what it wrote waits for longer than it
/// takes to send a frame.
void Bells::ring_again() {
  if (sent_to_.empty()) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  ring();
  for (Peer* peer : sent_to_) peer->lane->bell = false;
  sent_to_.clear();
}

}  // namespace uroce::segment
