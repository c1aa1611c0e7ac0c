// Wakes receivers that sleep.
//
// A receiver says in its memory how it wants to be rung (`Bell`):
//
//   kAtOnce     It sleeps, and its program does not poll. It says so, and has then a last look at its rings. A sender
//               writes a frame, and then looks at the bell. Each may be looking just before it can see what the other
//               has written, so the sender looks a second time when its frames are sure to be visible: after a full
//               fence, `kLook` later, or before it sleeps itself. Of two that each write, fence and read what the other
//               wrote, one at least sees it. So no frame is overlooked.
//   kLeftLying  Its program polls, and its thread sleeps so as not to take the CPU from the program. Frames are read
//               without anybody being woken, as long as the program goes on; nothing tells the receiver's own process
//               when it stops. But the sender sees it: frames lie in the ring, and nothing was read from there between
//               two looks. Then it rings. No memory order is needed: the sender looks again and again for as long as
//               frames lie there. A sender that sleeps meanwhile wakes up for these looks (`watching`).
//   kNever      Somebody is awake there, and looks.
//
// A receiver is rung once for each value of its bell: it then takes whatever is there, and says anew how it wants to be
// rung before it sleeps again.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "segment/mailbox.h"
#include "segment/peers.h"

namespace uroce::segment {

class Bells {
 public:
  /// How often frames that were sent are looked after. What lies unread for one to two times as long counts as left
  /// lying.
  static constexpr Duration kLook = microseconds(50);

  /// `mailbox` outlives the bells.
  Bells(const Mailbox& mailbox, MemberId own) : mailbox_(mailbox), own_(own) {}

  /// Frames were put into the ring towards `peer`; `ring` publishes them.
  void sent_to(Peer& peer) {
    if (peer.lane->watch.fresh) return;
    fresh_.push_back(&peer);
    peer.lane->watch.fresh = true;
  }
  /// After a burst: publishes it, and wakes the receivers that are seen to want every frame.
  void ring();
  /// The second look.
  enum class Look : uint8_t {
    kTimely,     // kLook after the one before
    kAtAnyTime,  // before this member sleeps: of frames that lie only now, nothing is known yet
    kLast,       // it sleeps until it is woken, or leaves: nobody will see for how long frames lie
  };
  void look(Look look);
  /// As of the last look: frames lie with a peer that wants to know of it, or somebody could not be woken. So a timely
  /// look has to come.
  bool watching() const { return watching_; }
  /// As of the last look: somebody could not be woken.
  bool owes() const { return owes_; }
  void forget(Peer& peer) {
    std::erase(fresh_, &peer);
    std::erase(watched_, &peer);
  }
  uint64_t wakes_sent() const { return wakes_sent_; }

 private:
  bool wake(Peer& peer, uint32_t bell);
  bool is_done(Peer& peer, Look look);

  const Mailbox& mailbox_;
  const MemberId own_;
  std::vector<Peer*> fresh_;    // frames were sent since `ring`
  std::vector<Peer*> watched_;  // frames that were sent may lie there unread
  size_t next_ = 0;             // of these, to be asked
  bool watching_ = false;
  bool owes_ = false;
  uint64_t wakes_sent_ = 0;
};

}  // namespace uroce::segment
