// Judges selective repeat: who may send a selective ACK, what it says is held, and what the requester sends again
// because of it.
//
// Both sides must sign their packets to be judged by these rules; all others keep those of go-back-N.
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

  /// The ranges of a selective ACK that can be; none when the capture cut them.
  static std::vector<SackRange> ranges_of(const Packet& packet);
  /// Who may send one, and to whom?
  bool check_ends(const Packet& packet);
  /// The range that changed last stands first.
  void check_order(const Packet& packet, const std::vector<SackRange>& ranges);
  /// What is held must have come by. `missing`: the first PSN of the range that did not.
  void on_range(const Packet& packet, const SackRange& range, std::optional<Psn> missing);

  /// The peer says that it expects `psn`: if it held that one, it has dropped all that it held.
  void on_expected(Psn psn);
  /// A plain ACK for everything up to `psn`: the next selective ACK has none before it to be compared with.
  void on_ack(Psn psn);
  /// What was held is not any more.
  void on_nak() { forget(); }
  /// Everything in front of `psn` is acknowledged.
  void on_acknowledged(Psn psn) { held_.drop_before(psn); }

  /// Something behind `psn` is held: it is missing in front of that.
  bool explains_back(Psn psn) const { return seen_.selective() && held_.any_behind(psn); }
  /// A request up to `end` is sent again. `answered_by_response`: it is a READ or an atomic.
  void on_sent_again(const Packet& packet, Psn end, bool answered_by_response);

 private:
  void forget();

  const Conversation& seen_;
  Reporter& report_;
  HeldPsns held_;
  BackRuns back_runs_;
  std::vector<SackRange> newest_;  // the ranges of the newest selective ACK, while they may be compared with
  Instant newest_time_{};
};

}  // namespace uroce::lint
