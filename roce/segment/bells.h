// Wakes receivers that sleep.
//
// A receiver says in its memory that it sleeps, and has then a last look at its rings. A sender writes a frame, and
// then looks whether the receiver sleeps. Each may be looking just before it can see what the other has written, so the
// sender looks a second time when its frames are sure to be visible.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "segment/mailbox.h"
#include "segment/peers.h"

namespace uroce::segment {

class Bells {
 public:
  /// `mailbox` outlives the bells.
  Bells(const Mailbox& mailbox, MemberId own) : mailbox_(mailbox), own_(own) {}

  /// Frames were put into the ring towards `peer`; `ring` publishes them.
  void sent_to(Peer& peer) {
    if (!std::exchange(peer.lane->bell, true)) sent_to_.push_back(&peer);
  }
  /// After a burst: publishes it, and wakes the receivers that are seen to sleep, each once per sleep.
  void ring() {
    for (Peer* peer : sent_to_) ring(*peer);
  }
  /// Some time later, and before this member sleeps itself.
  void ring_again();
  /// Some receiver of frames has not been looked at a second time, or could not be woken.
  bool any_left() const { return !sent_to_.empty(); }
  void forget(Peer& peer) { std::erase(sent_to_, &peer); }
  uint64_t wakes_sent() const { return wakes_sent_; }

 private:
  bool ring(Peer& peer);

  const Mailbox& mailbox_;
  const MemberId own_;
  std::vector<Peer*> sent_to_;  // since ring_again
  uint64_t wakes_sent_ = 0;
};

}  // namespace uroce::segment
