// Which of the requests that were sent have to be sent again, towards a peer that knows selective repeat.
//
// The scoreboard knows of each packet whether the peer holds it; here stands how far the peer has come in order, and
// what news of both mean: packets found to be lost, retransmissions that were not needed, round trips.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/scoreboard.h"
#include "transport/tail_probe.h"
#include "uroce/psn.h"
#include "uroce/time.h"
#include "wire/packet.h"

namespace uroce {

class RequestRecovery {
 public:
  /// What a sign from the peer brought to light.
  struct [[nodiscard]] News {
    bool loss = false;              // packets that are lost, and were not known to be
    uint64_t spurious = 0;          // retransmissions that were not needed
    std::optional<Duration> rtt;    // a new sample
    bool impossible_range = false;  // the selective ACK names what was never sent
  };
  /// A packet to send again.
  struct Resend {
    uint32_t entry = 0;  // of the scoreboard
    uint32_t work = 0;   // position of its work request in the send queue
    Psn psn;
    bool probe = false;
  };

  /// Room for so many packets that are sent and not known to be carried out.
  explicit RequestRecovery(uint32_t packets) : board_(packets) {}

  /// A new connection: round trips are measured anew.
  void start();
  /// Everything from `una` on is sent again, and stands on the board again then.
  void restart(Psn una);

  bool full() const { return board_.full(); }
  /// Packets in flight: those that the peer holds do not count.
  uint32_t open() const { return board_.open(); }
  /// The peer has carried out everything before.
  Psn delivered() const { return delivered_; }
  const RttSampler& rtt() const { return board_.rtt(); }

  /// A packet left from the cursor. What the peer has carried out is sent again only to get its response: that is no
  /// request to recover.
  void on_sent(Psn psn, uint32_t work, Instant now) {
    if (!psn.before(delivered_)) board_.on_sent(psn, work, now);
  }
  /// The peer has carried out everything before `upto`.
  News on_delivered(Psn upto, Instant now);
  /// What a selective ACK says beside a plain one. `high`: the first PSN that was never sent.
  News on_ranges(const PacketView& packet, Psn high, Instant now);
  /// The peer says that it expects `next`. True: it said before that it holds that one, so it has dropped what it held
  /// (it had no receive, or others needed its slots, and its NAK was lost); all of that is lost now.
  bool on_expects(Psn next);

  /// How long something that was overtaken may still be only late.
  Duration patience() const;
  /// When to call `expire`: something was overtaken, and will be lost then.
  Instant next_timeout() const;
  /// True: something is lost that was not known to be.
  bool expire(Instant now);

  bool wants_transmit() const { return board_.lost() != Scoreboard::kNone; }
  /// The lost packet that goes first, if there is one.
  std::optional<Resend> lost() const;
  /// The packet of a probe, if there is one that may be lost.
  std::optional<Resend> probe(TailProbe::Packet packet) const;
  void on_sent_again(const Resend& resend, Instant now) { board_.on_sent_again(resend.entry, now, resend.probe); }

 private:
  Resend describe(uint32_t entry, bool probe) const;
  std::optional<Duration> new_rtt();

  Scoreboard board_;
  Psn delivered_;
  uint64_t spurious_ = 0;  // of the board, as told
  uint64_t samples_ = 0;   // of its round trips, as told
};

}  // namespace uroce
