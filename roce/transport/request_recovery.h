// Which of the requests that were sent have to be sent again, towards a peer that knows selective repeat.
//
// The scoreboard knows for each packet whether the peer holds it. This class keeps how far the peer has come in order,
// and works out what follows from news of either: packets that are lost, retransmissions that were not needed, round
// trip times.
#pragma once

#include <cstdint>
#include <optional>

#include "packet/packet.h"
#include "transport/scoreboard.h"
#include "transport/tail_probe.h"
#include "uroce/psn.h"
#include "uroce/time.h"

namespace uroce {

class RequestRecovery {
 public:
  /// What was learned from a packet of the peer.
  struct [[nodiscard]] News {
    bool loss = false;              // packets were found to be lost
    uint64_t spurious = 0;          // retransmissions that were not needed
    std::optional<Duration> rtt;    // a new round trip time
    bool impossible_range = false;  // the selective ACK names packets that were never sent
  };
  /// A packet to send again.
  struct Resend {
    uint32_t entry = 0;  // in the scoreboard
    uint32_t work = 0;   // position of its work request in the send queue
    Psn psn;
    bool probe = false;
  };

  /// With room for `packets` that were sent and are not known to be carried out.
  explicit RequestRecovery(uint32_t packets) : board_(packets) {}

  /// A new connection: round trips are measured anew.
  void start();
  /// Everything from `una` on will be sent again, and is put on the board again when it is.
  void restart(Psn una);

  bool full() const { return board_.full(); }
  /// Packets in flight, without those that the peer holds.
  uint32_t open() const { return board_.open(); }
  /// The peer has carried out everything before this PSN.
  Psn delivered() const { return delivered_; }
  const RttSampler& rtt() const { return board_.rtt(); }

  /// A packet left from the cursor. One that the peer has already carried out is sent again only to get its response,
  /// so it is no request to recover.
  void on_sent(Psn psn, uint32_t work, Instant now) {
    if (!psn.before(delivered_)) board_.on_sent(psn, work, now);
  }
  /// The peer has carried out everything before `upto`.
  News on_delivered(Psn upto, Instant now);
  /// Takes what a selective ACK says beside a plain one. `high` is the first PSN that was never sent.
  News on_ranges(const PacketView& packet, Psn high, Instant now);
  /// The peer says that it expects `next`. True when it said before that it holds that packet: then it has dropped all
  /// that it held (because it had no receive and its NAK was lost, or because others needed the slots), and all of that
  /// now counts as lost.
  bool on_expects(Psn next);

  /// How long a packet that was overtaken by later ones may still be merely late.
  Duration patience() const;
  /// When to call `expire`: a packet that was overtaken counts as lost from then on.
  Instant next_timeout() const;
  /// True when packets were found to be lost.
  bool expire(Instant now);

  bool wants_transmit() const { return board_.lost() != Scoreboard::kNone; }
  /// The lost packet that goes first, if there is one.
  std::optional<Resend> lost() const;
  /// The packet to send as a probe, if there is one that may be lost.
  std::optional<Resend> probe(TailProbe::Packet packet) const;
  void on_sent_again(const Resend& resend, Instant now) { board_.on_sent_again(resend.entry, now, resend.probe); }

 private:
  Resend describe(uint32_t entry, bool probe) const;
  std::optional<Duration> new_rtt();

  Scoreboard board_;
  Psn delivered_;
  uint64_t spurious_ = 0;  // what was reported of the board's count
  uint64_t samples_ = 0;   // what was reported of the board's round trips
};

}  // namespace uroce
