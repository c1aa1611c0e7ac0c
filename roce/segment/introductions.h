// How two members come to know each other: a hello each way, with the memory through which their frames go.
//
// A member with a first frame for a peer makes its half of a lane, fills it, and says hello; the peer answers with a
// hello of its own. A hello may be lost when a mailbox is full or a process has no descriptor left, so it is said
// again, less and less often, until the answer is there. Frames need not wait for that: they lie in the ring.
#pragma once

#include <functional>
#include <string>

#include "segment/mailbox.h"
#include "segment/peers.h"

namespace uroce::segment {

class Introductions {
 public:
  /// How many are met at the same time; 0: any number.
  struct Most {
    uint32_t programs = 0;
    uint32_t members = 0;  // programs and others
  };
  /// Everything outlives the introductions. `base` is this member's, for its peers to map; `warn` gets a line when
  /// something is wrong that a user can mend.
  Introductions(Mailbox& mailbox, Peers& peers, FramePool& pool, const OwnMemory& base, MemberId own, Most most,
                std::function<void(const std::string&)> warn)
      : mailbox_(mailbox), peers_(peers), pool_(pool), base_(base), own_(own), most_(most), warn_(std::move(warn)) {}

  /// Makes a lane to a peer with which there was no contact, and says hello. False when there is no memory for it.
  bool make_contact(Peer& peer, Instant now);
  /// Reads what has come. True when somebody rang.
  bool read_mail(Instant now);
  /// Says hello again to those that have not answered for long enough.
  void repeat(Instant now);

 private:
  void say_hello(Peer& peer, bool answer, Instant now);
  void look_who_is_shut();
  void answer_hello(Peer& peer, Instant now);
  void on_hello(const Letter& letter, const LetterFds& fds, Instant now);
  void on_known(Lane& lane);
  bool may_meet(const Peer& peer) const;
  void warn_once(bool& warned, const std::string& line);

  Mailbox& mailbox_;
  Peers& peers_;
  FramePool& pool_;
  const OwnMemory& base_;
  const MemberId own_;
  const Most most_;
  const std::function<void(const std::string&)> warn_;
  unsigned unconfirmed_ = 0;
  Instant next_refresh_{0};
  bool warned_of_fds_ = false;
  bool warned_of_bars_ = false;
  bool warned_of_version_ = false;
  bool warned_of_memory_ = false;
  bool warned_of_quota_ = false;
};

}  // namespace uroce::segment
