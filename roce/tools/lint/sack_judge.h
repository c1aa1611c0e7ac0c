// Judges selective repeat: which side may send a selective ACK, which packets it says are held, and what the requester
// sends again because of it.
//
// These rules apply only where both sides sign their packets; all others must keep the rules of go-back-N.
#pragma once

#include <optional>
#include <vector>

#include "lint/conversation.h"
#include "lint/held_psns.h"
#include "lint/reporter.h"

namespace uroce::lint {

class SackJudge {
 public:
  /// Both outlive it.
  SackJudge(const Conversation& seen, Reporter& report) : seen_(seen), report_(report) {}

  /// The ranges of a selective ACK that are possible; none when the capture cut them.
  static std::vector<SackRange> ranges_of(const Packet& packet);
  /// Checks that the sender may send a selective ACK to this receiver.
  bool check_ends(const Packet& packet);
  /// Checks that the range that changed last stands first.
  void check_order(const Packet& packet, const std::vector<SackRange>& ranges);
  /// Checks that the packets in the range were seen. `missing` is the first PSN that was not.
  void on_range(const Packet& packet, const SackRange& range, std::optional<Psn> missing);

  /// The peer says that it expects `psn`. If it held that packet, it has dropped everything that it held.
  void on_expected(Psn psn);
  /// A plain ACK for everything up to `psn` came. The next selective ACK is not compared with an earlier one.
  void on_ack(Psn psn);
  /// The peer dropped what it held.
  void on_nak() { forget(); }
  /// Everything before `psn` is acknowledged.
  void on_acknowledged(Psn psn) { held_.drop_before(psn); }

  /// True when something behind `psn` is held, which explains why `psn` is sent again.
  bool explains_back(Psn psn) const { return seen_.selective() && held_.any_behind(psn); }
  /// A request up to `end` is sent again. `answered_by_response`: it is a READ or an atomic.
  void on_sent_again(const Packet& packet, Psn end, bool answered_by_response);

 private:
  void forget();

  const Conversation& seen_;
  Reporter& report_;
  HeldPsns held_;
  BackRuns back_runs_;
  std::vector<SackRange> newest_;  // those of the newest selective ACK, if it can be compared
  Instant newest_time_{};
};

}  // namespace uroce::lint
