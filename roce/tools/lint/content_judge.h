// Judges the contents of a request: whether its opcode continues the message before, whether its payload is as long as
// the path MTU and its message demand, and whether a request that comes again is the same as before.
//
// It remembers nothing of its own.
#pragma once

#include "lint/conversation.h"
#include "lint/reporter.h"

namespace uroce::lint {

class ContentJudge {
 public:
  /// Both outlive it.
  ContentJudge(const Conversation& seen, Reporter& report) : seen_(seen), report_(report) {}

  /// `before`: the packet right in front of it.
  void check_opcode(const Packet& packet, const Sent& before);
  /// `sent`: what the log holds of the packet.
  void check_lengths(const Packet& packet, const Sent& sent);
  /// The PSN of `sent` comes again. `settled`: it was acknowledged, or everything was refused for good; then the packet
  /// may belong to another QP with the same number, which sends something else.
  Verdict check_repeated(const Packet& packet, const Sent& sent, bool settled);

 private:
  void blame_difference(const Packet& packet, const Sent& sent);
  void check_full(const Packet& packet);
  void check_message_length(const Packet& packet, const Sent& last);

  const Conversation& seen_;
  Reporter& report_;
};

}  // namespace uroce::lint
