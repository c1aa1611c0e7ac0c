// Judges positive ACKs: they never go back, and a READ or an atomic is answered only by its own response.
//
// It remembers nothing of its own.
#pragma once

#include "lint/conversation.h"
#include "lint/reporter.h"

namespace uroce::lint {

class AckJudge {
 public:
  enum class Meaning : uint8_t {
    kNothing,        // it should not have been sent
    kPackets,        // everything up to its PSN arrived
    kWholeMessages,  // the same, and its MSN counts the messages up to its PSN
  };

  /// Both outlive it.
  AckJudge(const Conversation& seen, Reporter& report) : seen_(seen), report_(report) {}

  Meaning on_ack(const Packet& packet);
  /// An ACK or a selective ACK for less than what was acknowledged, which is a finding.
  bool goes_back(const Packet& packet);

 private:
  bool takes_place_of_response(const Packet& packet, const Read* read) const;
  bool leaves_out_reads(Psn psn) const;

  const Conversation& seen_;
  Reporter& report_;
};

}  // namespace uroce::lint
