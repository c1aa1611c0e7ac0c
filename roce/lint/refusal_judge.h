// Judges refusals, and what the requester makes of them: a NAK of a sequence error or an RNR NAK, after which it begins
// again with the PSN that was named, and a NAK that ends everything.
//
// A NAK takes time to arrive, and copies of a packet may be under way together: what may have crossed a refusal is no
// answer to it.
#pragma once

#include <cstdint>
#include <optional>

#include "lint/conversation.h"
#include "lint/reporter.h"

namespace uroce::lint {

class RefusalJudge {
 public:
  /// Why a requester goes back.
  enum class Reason : uint8_t { kNone, kNak, kRnrNak };

  /// Both outlive it.
  RefusalJudge(const Conversation& seen, Reporter& report) : seen_(seen), report_(report) {}

  /// The requester owes a retransmission.
  bool is_open() const { return nak_.is_open() || rnr_.is_open(); }
  /// A NAK said that nothing more will be done.
  bool is_final() const { return final_frame_ != 0; }

  // Requests.
  /// The requester begins again with this packet: because of a refusal, and is it the right packet?
  Reason on_back(const Packet& packet);
  /// `span` PSNs from this packet on are sent, or sent again.
  void on_sent(const Packet& packet, uint32_t span) {
    if (is_open()) check_answer(packet, span);
  }

  // Responses. A NAK acknowledges what stands before its PSN: of the two calls for each, one is before the channel
  // notes that, and one behind it.
  /// It refuses what was acknowledged, which is a finding.
  bool is_too_late(const Packet& packet);
  /// True when it is the second refusal of copies that were under way together.
  bool on_rnr_nak(const Packet& packet);
  /// `una`: the oldest PSN in doubt when it came. `again`: what `on_rnr_nak` said.
  void open_rnr(const Packet& packet, Psn una, bool again);
  /// `missing`: a PSN before its own that never came by.
  void on_sequence_nak(const Packet& packet, std::optional<Psn> missing);
  void open_nak(const Packet& packet, Psn una);
  void on_fatal_nak(const Packet& packet) { final_frame_ = packet.frame; }
  /// Any response after that.
  void on_after_final(const Packet& packet);
  /// Everything up to `psn` is acknowledged by this frame.
  void on_acknowledged(Psn psn, uint64_t frame) {
    judge_unanswered(nak_, psn, frame);
    judge_unanswered(rnr_, psn, frame);
  }

 private:
  struct Refusal {
    enum class State : uint8_t {
      kSettled,      // there is none, or what it wants was done
      kOpen,         // the requester has to begin again with `psn`
      kBegunBehind,  // it began again, but with a later one
    };
    State state = State::kSettled;
    Psn psn;
    uint64_t frame = 0;
    std::optional<Instant> time;
    uint8_t code = 0;
    Psn una;                     // oldest PSN in doubt when it came
    bool read_in_doubt = false;  // a READ or atomic in front of it waits for its response
    uint64_t behind_frame = 0;   // kBegunBehind: the packet
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
