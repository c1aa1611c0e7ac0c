// Judges the order of requests: PSNs that are skipped, that come too late, or that are far away from all others.
//
// A packet that was not seen may have been lost before the tap, or may not have been captured. So a gap is remembered,
// and becomes a finding only when the peer acknowledges what was never seen. A packet that is far away from all others
// has a wrong PSN if the sequence goes on without it, and belongs to another life of the QP number if a second one
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
  /// This request is far away from all others, or is not the first one that connection management announced.
  Verdict on_far(const Packet& packet);
  /// The sequence goes on with this request.
  void on_near(const Packet& packet) {
    if (odd_) blame_odd(packet);
  }
  /// PSNs before this request are missing.
  void on_ahead(const Packet& packet);
  /// A UC request that is not new: UC never sends again.
  Verdict on_uc_behind(const Packet& packet);
  /// `span` PSNs come that are not new. Returns true when some of them were missing until now.
  bool on_behind(Psn psn, uint32_t span);
  /// True when something before `psn` is missing, so that a responder drops it.
  bool is_over_gap(Psn psn) const {
    return std::any_of(gaps_.begin(), gaps_.end(), [psn](const Gap& gap) { return distance(gap.begin, psn) > 0; });
  }

  // Responses.
  /// True when the response belongs to the request that was far away.
  bool is_about_odd(Psn psn) const { return odd_ && std::abs(distance(odd_->psn, psn)) <= kFar; }
  /// This frame acknowledges everything up to `psn`. Checks that what came over a gap came again after the gap had
  /// closed. To be called before the numbers of the conversation change. What was not dropped after all is marked in
  /// `sent`.
  void check_order(Psn psn, uint64_t frame, SentRequests& sent) {
    if (overtaken_end_) check_overtaken(psn, frame, sent);
  }
  /// This frame says that everything up to `psn` reached the responder.
  void on_acknowledged(Psn psn, uint64_t frame) {
    if (!gaps_.empty()) blame_missing(psn, frame);
  }
  /// The responder says that it misses `psn`. Returns and forgets a PSN that it should have missed before.
  std::optional<Psn> take_missing_before(Psn psn);
  /// The first missing PSN within a range that the responder says arrived.
  std::optional<Psn> missing_in(const SackRange& range) const;
  /// These PSNs arrived, as was seen or as the responder says. Returns true when some of them were missing.
  bool fill(Psn psn, uint32_t span);

  /// The capture is over.
  void finish();

 private:
  struct Gap {
    Psn begin;
    uint32_t count = 0;
    uint64_t frame = 0;  // the packet after the gap
    Rule rule = Rule::kPsnGap;
    bool young = false;  // Conversation::is_young at that time
  };
  struct Odd {
    Psn psn;
    uint64_t frame = 0;
    uint8_t opcode = 0;
  };
  /// Found in a young conversation. Whether it is a fault will be known when both sides are known.
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
  std::optional<Psn> overtaken_end_;  // a gap was filled: what came over it, up to this PSN, has to come again
  std::vector<EarlyFinding> early_;
};

}  // namespace uroce::lint
