// Judges the order of requests: PSNs that are jumped over, that come too late, or from far away.
//
// A packet that did not come by may have been lost in front of the tap, or may not have been captured. So a gap is
// remembered, and becomes a finding only when the peer acknowledges what was never seen. A packet that is far away from
// all others is a wrong PSN when the sequence goes on without it, and another life of the QP number when a second one
// follows it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "lint/conversation.h"
#include "lint/reporter.h"

namespace uroce::lint {

class SequenceJudge {
 public:
  /// Both outlive it.
  SequenceJudge(const Conversation& seen, Reporter& report) : seen_(seen), report_(report) {}

  // Requests.
  /// This one is far away from all others, or not where connection management said that the first would be.
  Verdict on_far(const Packet& packet);
  /// The sequence goes on with this one.
  void on_near(const Packet& packet) {
    if (odd_) blame_odd(packet);
  }
  /// PSNs are missing in front of this one.
  void on_ahead(const Packet& packet);
  /// UC never sends again.
  Verdict on_uc_behind(const Packet& packet);
  /// `span` PSNs come that are not new. True when some of them were missing until now.
  bool on_behind(Psn psn, uint32_t span);
  /// Something in front of it is missing: a responder drops it.
  bool is_over_gap(Psn psn) const {
    return std::any_of(gaps_.begin(), gaps_.end(), [psn](const Gap& gap) { return distance(gap.begin, psn) > 0; });
  }

  // Responses.
  /// It belongs to the request that was far away.
  bool is_about_odd(Psn psn) const { return odd_ && std::abs(distance(odd_->psn, psn)) <= kFar; }
  /// This frame acknowledges everything up to `psn`: did that come again after the gap in front of it had closed? Call
  /// it before the numbers of the conversation move. What was not dropped after all is marked so in `sent`.
  void check_order(Psn psn, uint64_t frame, SentRequests& sent) {
    if (overtaken_end_) check_overtaken(psn, frame, sent);
  }
  /// Everything up to `psn` reached the responder, as this frame says.
  void on_acknowledged(Psn psn, uint64_t frame) {
    if (!gaps_.empty()) blame_missing(psn, frame);
  }
  /// The responder says that it misses `psn`: gives what it should have missed before that, and forgets it.
  std::optional<Psn> take_missing_before(Psn psn);
  /// The first PSN that is missing, and within PSNs that the responder says arrived.
  std::optional<Psn> missing_in(const SackRange& range) const;
  /// These PSNs arrived, whoever says so. True when some of them were missing.
  bool fill(Psn psn, uint32_t span);

  /// The capture is over.
  void finish();

 private:
  struct Gap {
    Psn begin;
    uint32_t count = 0;
    uint64_t frame = 0;  // the packet behind it
    Rule rule = Rule::kPsnGap;
    bool young = false;  // Conversation::is_young then
  };
  struct Odd {
    Psn psn;
    uint64_t frame = 0;
    uint8_t opcode = 0;
  };
  /// Found in a young conversation. Whether it is a fault will be known when both sides are.
  struct EarlyFinding {
    Rule rule{};
    uint64_t frame = 0;
    std::string text;
  };

  void blame_odd(const Packet& packet);
  void blame_missing(Psn psn, uint64_t frame);
  void check_overtaken(Psn psn, uint64_t frame, SentRequests& requests);
  void blame(Rule rule, uint64_t frame, std::string text, bool young);

  const Conversation& seen_;
  Reporter& report_;
  std::vector<Gap> gaps_;
  std::optional<Odd> odd_;            // a request far from all others
  std::optional<Psn> overtaken_end_;  // a gap was filled: what came over it, up to here, has to come again
  std::vector<EarlyFinding> early_;
};

}  // namespace uroce::lint
