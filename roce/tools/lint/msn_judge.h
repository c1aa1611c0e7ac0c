// Judges the message sequence number of responses: how many messages the responder has completed.
//
// Where a capture begins in the middle, the first response tells the count at that time. Counts are comparable as long
// as no request is missing: a run of packets without a gap is an epoch of the log.
#pragma once

#include <cstdint>

#include "lint/conversation.h"
#include "lint/reporter.h"

namespace uroce::lint {

class MsnJudge {
 public:
  /// Both outlive it.
  MsnJudge(const Conversation& seen, Reporter& report) : seen_(seen), report_(report) {}

  /// The epoch begins with the connection: messages are counted from zero, as the responder counts them.
  void count_from_start(uint32_t epoch) {
    epoch_ = epoch;
    offset_ = 0;
  }
  /// Checks a response that names `psn`. `through`: the message that ends with that PSN counts.
  void check(const Packet& packet, Psn psn, bool through);
  /// Checks a READ or atomic response, which may be sent after later messages completed, or carry the count from before
  /// its own message.
  void check_range(const Packet& packet, const Read& read);

 private:
  const Conversation& seen_;
  Reporter& report_;
  uint32_t epoch_ = 0;   // 0: nothing was learned yet
  uint32_t offset_ = 0;  // of the responder's count from ours, modulo 2^24
};

}  // namespace uroce::lint
