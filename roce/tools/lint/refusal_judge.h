// Judges refusals and how the requester reacts to them: after a NAK for a sequence error or an RNR NAK it has to begin
// again with the PSN that was named; any other NAK ends everything.
//
// A NAK takes time to arrive, and several copies of a packet may be under way: a packet that may have crossed a refusal
// is no answer to it.
#pragma once

#include <cstdint>
#include <optional>

#include "lint/conversation.h"
#include "lint/reporter.h"

namespace uroce::lint {

class RefusalJudge {
 public:
  /// The refusal because of which a requester goes back.
  enum class Reason : uint8_t { kNone, kNak, kRnrNak };

  /// Both outlive it.
  RefusalJudge(const Conversation& seen, Reporter& report) : seen_(seen), report_(report) {}

  /// True when the requester owes a retransmission.
  bool is_open() const { return nak_.is_open() || rnr_.is_open(); }
  /// True after a NAK that ends the connection.
  bool is_final() const { return final_frame_ != 0; }

  // Requests.
  /// The requester begins again with this packet. Says whether a refusal is the reason, and checks that it is the right
  /// packet.
  Reason on_back(const Packet& packet);
  /// `span` PSNs from this packet on are sent, or sent again.
  void on_sent(const Packet& packet, uint32_t span) {
    if (is_open()) check_answer(packet, span);
  }

  // Responses. A NAK acknowledges what stands before its PSN. There are two calls for each NAK: one before the channel
  // notes that, and one after.
  /// True when the NAK refuses what was acknowledged, which is a finding.
  bool is_too_late(const Packet& packet);
  /// True when it is another refusal of a packet of which several copies were under way.
  bool on_rnr_nak(const Packet& packet);
  /// `una` is the oldest PSN in doubt when the NAK came; `again` is what `on_rnr_nak` returned.
  void open_rnr(const Packet& packet, Psn una, bool again);
  /// `missing` is a PSN before its own that was never seen.
  void on_sequence_nak(const Packet& packet, std::optional<Psn> missing);
  void open_nak(const Packet& packet, Psn una);
  void on_fatal_nak(const Packet& packet) { final_frame_ = packet.frame; }
  /// Any response after a NAK that ended the connection.
  void on_after_final(const Packet& packet);
  /// Everything up to `psn` is acknowledged by this frame.
  void on_acknowledged(Psn psn, uint64_t frame) {
    judge_unanswered(nak_, psn, frame);
    judge_unanswered(rnr_, psn, frame);
  }

 private:
  struct Refusal {
    enum class State : uint8_t {
      kSettled,      // there is none, or the requester did what it asks for
      kOpen,         // the requester has to begin again with `psn`
      kBegunBehind,  // it began again, but with a later one
    };
    State state = State::kSettled;
    Psn psn;
    uint64_t frame = 0;
    std::optional<Instant> time;
    uint8_t code = 0;
    Psn una;                     // the oldest PSN in doubt when it came
    bool read_in_doubt = false;  // a READ or atomic before it waits for its response
    uint64_t behind_frame = 0;   // for kBegunBehind: the packet
    Psn behind_psn;
    bool is_open() const { return state != State::kSettled; }
    void settle() { state = State::kSettled; }
  };

  bool explains(Refusal& refusal, const Packet& packet);
  bool may_be_under_way(const Refusal& refusal) const;
  void check_answer(const Packet& packet, uint32_t span);
  void judge_unanswered(Refusal& refusal, Psn psn, uint64_t frame) {
    if (refusal.is_open() && distance(refusal.psn, psn) >= 0) blame_unanswered(refusal, frame);
  }
  void blame_unanswered(Refusal& refusal, uint64_t frame);

  const Conversation& seen_;
  Reporter& report_;
  Refusal nak_;
  Refusal rnr_;
  uint64_t final_frame_ = 0;  // 0: none
};

}  // namespace uroce::lint
