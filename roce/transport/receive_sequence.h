// Where a responder stands in what its peer sends: which PSN comes next, what was completed until there, and whether
// the peer knows of a gap.
//
// It is told what was received, and says what that means; what is answered is the responder's business. Of a gap the
// peer is told once: then all that follows is dropped in silence until the missing packet comes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "uroce/psn.h"

namespace uroce {

class ReceiveSequence {
 public:
  enum class [[nodiscard]] Gap : uint8_t{
      kNew,    // the peer has to be told
      kKnown,  // it was
  };
  enum class [[nodiscard]] Nak : uint8_t{kTrue, kObsolete};

  /// A new connection, whose first request has the number `first`.
  void start(Psn first);
  /// Nothing was received, and no gap is known; the next number stays.
  void reset();

  Psn next() const { return next_; }
  /// Messages completed; 24 bits of it go on the wire.
  uint32_t msn() const { return msn_; }
  /// What an ACK names: the last packet received. READs and atomics at the end are left out: their responses may be
  /// lost, and there are peers that would do without.
  Psn acknowledged() const { return next_ - (1 + reads_last_); }
  /// The last request was a READ or an atomic.
  bool ends_with_read() const { return reads_last_ != 0; }
  /// Until `next` comes, all is dropped in silence.
  bool silent() const { return silent_; }

  /// The next packet is here.
  void on_next() { silent_ = false; }
  /// It is not carried out now (RNR): until it comes again, what follows is dropped.
  void on_not_ready() { silent_ = true; }
  /// A packet from beyond a gap is dropped.
  Gap on_dropped(Psn psn);
  /// The next packet, which took so many PSNs, was carried out. `last`: of its message. `read`: it was a READ or
  /// atomic.
  void on_accepted(uint32_t psns, bool last, bool read);
  /// A NAK that has not left names `next` when it does. Is it true still? If so, silence goes on.
  Nak review_nak();
  /// What was accepted from there on was not, after all: responses that cannot be given.
  void go_back(Psn next, uint32_t msn);

 private:
  // An ACK for older packets than that would look like one for newer ones.
  static constexpr uint32_t kReadsLastMax = 1 << 22;

  Psn next_;
  uint32_t msn_ = 0;
  uint32_t reads_last_ = 0;  // PSNs of READs and atomics behind the last SEND or WRITE
  bool silent_ = false;
  bool missed_ = false;  // packets from next_ on were dropped, up to:
  Psn missed_until_;
};

// Asked for every packet, hence here.
inline void ReceiveSequence::on_accepted(uint32_t psns, bool last, bool read) {
  next_ += psns;
  if (last) msn_++;
  if (missed_ && missed_until_.before(next_)) missed_ = false;
  reads_last_ = read ? std::min(reads_last_ + psns, kReadsLastMax) : 0;
}

}  // namespace uroce
