// How this member sleeps: what it tells the others, and what wakes it (bells.h has the other side).
#pragma once

#include <cstdint>
#include <utility>

#include "segment/bells.h"
#include "segment/layout.h"
#include "segment/local_answers.h"
#include "segment/mailbox.h"
#include "segment/peers.h"

namespace uroce::segment {

class Sleep {
 public:
  /// All of them outlive it. `base` is this member's.
  Sleep(BaseMemory& base, const Mailbox& mailbox, const Peers& peers, const LocalAnswers& answers, Bells& bells)
      : base_(base), mailbox_(mailbox), peers_(peers), answers_(answers), bells_(bells) {}

  /// Readable when this member is woken, until a turn after `disarm`. Any thread may wait for it.
  int fd() const { return mailbox_.fd(); }

  // By the thread that uses the port.
  /// To be called before the thread sleeps: from now on a peer that sends a frame makes `fd` readable. False when
  /// something is there already; then the thread must not sleep. `disarm` ends it.
  /// `for_long`: nothing but `fd` ends the sleep; then also false while a sleeping peer could not be woken.
  bool arm(bool for_long = false);
  /// To be called before a thread sleeps because another one polls: a peer makes `fd` readable only when it sees that
  /// its frames are left lying. `disarm` ends it. False when something is there now, which the other
  /// one has to take.
  bool stand_back();
  void disarm();
  /// A peer has rung, and another thread than the one that sleeps has heard it: the next frame has to ring again. To be
  /// called before that thread receives.
  void note_rung();
  /// Sees to frames that were sent since the last turn, as `arm` does.
  void look() { bells_.look(Bells::Look::kAtAnyTime); }
  /// Frames lie unread with a peer that wants to know of it, or a peer could not be woken: whoever sleeps has to make a
  /// turn after `Bells::kLook` at the latest.
  bool watching() const { return bells_.watching(); }
  /// Something can be received, as far as a look tells.
  bool has_frames() const;
  /// A thread waits for letters while another one polls.
  bool wakes_for_letters() const { return wish_ == WakeWish::kLeftLying; }
  /// True once after `disarm`: there may be a letter.
  bool take_woken() { return std::exchange(woken_, false); }
  bool woken() const { return woken_; }

 private:
  void set(WakeWish wish);

  BaseMemory& base_;
  const Mailbox& mailbox_;
  const Peers& peers_;
  const LocalAnswers& answers_;
  Bells& bells_;
  WakeWish wish_ = WakeWish::kNever;
  uint32_t times_ = 0;
  bool woken_ = false;
};

}  // namespace uroce::segment
