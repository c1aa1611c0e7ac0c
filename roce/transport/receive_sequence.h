// A responder's position in its peer's packets: which PSN comes next, which messages are complete, and whether the peer
// knows of a gap.
//
// It is told what was received, and says what that means; the responder decides what to answer. The peer is told of a
// gap once; then all that follows is dropped in silence until the missing packet comes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "uroce/psn.h"

namespace uroce {

class ReceiveSequence {
 public:
  enum class [[nodiscard]] Gap : uint8_t{
      kNew,    // the peer has to be told of it
      kKnown,  // the peer was told
  };
  enum class [[nodiscard]] Nak : uint8_t{kTrue, kObsolete};

  /// A new connection, whose first request has the number `first`.
  void start(Psn first);
  /// Forgets what was received and any gap; the next PSN stays as it is.
  void reset();

  Psn next() const { return next_; }
  /// Messages completed, of which 24 bits go on the wire.
  uint32_t msn() const { return msn_; }
  /// The PSN of an ACK: that of the last packet received, without READs and atomics at the end. Their responses may
  /// have been lost, and some peers would then do without the response.
  Psn acknowledged() const { return next_ - (1 + reads_last_); }
  /// True when the last request was a READ or an atomic.
  bool ends_with_read() const { return reads_last_ != 0; }
  /// True when everything is dropped in silence until the packet `next` comes.
  bool silent() const { return silent_; }

  /// The packet `next` has come.
  void on_next() { silent_ = false; }
  /// The packet `next` is not carried out now (RNR). Until it comes again, everything that follows is dropped.
  void on_not_ready() { silent_ = true; }
  /// A packet from beyond a gap is dropped.
  Gap on_dropped(Psn psn);
  /// The packet `next`, which took so many PSNs, was carried out. `last`: it ended its message. `read`: it was a READ
  /// or an atomic.
  void on_accepted(uint32_t psns, bool last, bool read);
  /// A NAK that has not left yet will name `next`. Says whether the NAK is still true; if so, the silence goes on.
  Nak review_nak();
  /// Takes back what was accepted from `next` on, because its responses cannot be given.
  void go_back(Psn next, uint32_t msn);

 private:
  // If an ACK left out more PSNs than this, it would look like one for newer packets.
  static constexpr uint32_t kReadsLastMax = 1 << 22;

  Psn next_;
  uint32_t msn_ = 0;
  uint32_t reads_last_ = 0;  // PSNs of READs and atomics behind the last SEND or WRITE
  bool silent_ = false;
  bool missed_ = false;  // packets from next_ to missed_until_ were dropped
  Psn missed_until_;
};

// Called for every packet, hence inline.
inline void ReceiveSequence::on_accepted(uint32_t psns, bool last, bool read) {
  ensure(psns != 0, "every packet takes a PSN");
  next_ += psns;
  if (last) msn_++;
  if (missed_ && missed_until_.before(next_)) missed_ = false;
  reads_last_ = read ? std::min(reads_last_ + psns, kReadsLastMax) : 0;
}

}  // namespace uroce
