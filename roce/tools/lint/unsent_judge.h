// Judges responses to requests that were not sent. A capture may show the two directions in the wrong order, so such a
// response waits for the next requests: one that comes a few frames later may be what it answers.
#pragma once

#include <cstdint>
#include <optional>

#include "lint/conversation.h"
#include "lint/reporter.h"

namespace uroce::lint {

class UnsentJudge {
 public:
  /// Both outlive it.
  UnsentJudge(const Conversation& seen, Reporter& report) : seen_(seen), report_(report) {}

  /// A response to a request from before the capture, unless that is too long ago.
  void on_old(const Packet& packet);
  /// A response that names `psn`, which was not sent; `rule` says in which way.
  void on_early(const Packet& packet, Psn psn, Rule rule);
  /// A request that takes `span` PSNs.
  void on_request(const Packet& packet, uint32_t span) {
    if (early_) compare(packet, span);
  }
  /// The capture is over.
  void finish() { blame(); }

 private:
  struct Early {
    Psn psn;
    Psn newest;  // the newest request at that time
    uint64_t frame = 0;
    Instant time{};
    uint8_t opcode = 0;
    Rule rule = Rule::kAckUnsent;
  };
  void compare(const Packet& request, uint32_t span);
  void blame();

  const Conversation& seen_;
  Reporter& report_;
  std::optional<Early> early_;
};

}  // namespace uroce::lint
