// Judges READs and atomics: a request that comes again must ask for the same, and each must be answered once for each
// time that it was asked, in order, completely, and with what fits it.
//
// A response that is missing becomes a finding only when later ones came and the requester did not ask again: it may
// not have been captured. What is still open at the end of the capture is no finding.
#pragma once

#include <cstdint>

#include "lint/conversation.h"
#include "lint/reporter.h"

namespace uroce::lint {

class ReadJudge {
 public:
  /// What a request that begins within the PSNs of an earlier READ or atomic means.
  enum class Within : uint8_t {
    kRepetition,
    kWrong,      // it does not belong there, which is a finding
    kRestarted,  // all that was answered long ago: another life of the QP number
  };

  /// All outlive it. `reads` are those of `seen`; this judge notes in them what was answered.
  ReadJudge(const Conversation& seen, Reads& reads, Reporter& report) : seen_(seen), reads_(reads), report_(report) {}

  /// How many READs and atomics the responder takes at once.
  void set_limit(uint32_t limit) { limit_ = limit; }

  // Requests.
  /// A READ or an atomic that takes `span` PSNs. `is_new`: none of them was sent before.
  void on_asked(const Packet& packet, uint32_t span, bool is_new);
  /// `settled`: everything was refused for good.
  Within on_within(const Packet& packet, const Read& read, bool settled);
  /// `read` is repeated, from this packet's PSN on.
  void on_asked_again(const Packet& packet, Read& read);
  /// Forgets the oldest ones when there are many. `settled` as above.
  void retire(bool settled);

  // Responses.
  /// The request that a READ or atomic response answers; nullptr when it is not known, or when the response is a
  /// finding.
  Read* answered_by(const Packet& packet);
  void check_form(const Packet& packet, const Read& read);
  void on_read_response(const Packet& packet, Read& read);
  void on_atomic_response(const Packet& packet, Read& read);
  /// This frame acknowledges everything up to `psn`: READs and atomics that end there should be answered by now.
  void on_acknowledged(Psn psn, uint64_t frame);

  /// The capture is over. `settled` as above.
  void finish(bool settled);

 private:
  void check_limit(const Packet& packet);
  void check_repetition(const Packet& packet, const Read& read);
  void check_order(const Packet& packet, Read& read, bool seen_before);
  bool was_overtaken(const Read& read) const;
  void open_hole(Read& read, uint64_t frame) const;
  void judge_hole(const Read& read);

  const Conversation& seen_;
  Reads& reads_;
  Reporter& report_;
  uint32_t limit_ = UINT32_MAX;
};

}  // namespace uroce::lint
