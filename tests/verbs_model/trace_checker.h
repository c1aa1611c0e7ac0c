// Watches what an engine sends, and holds it to rules that must hold on every cable.
#pragma once

#include <cinttypes>
#include <map>
#include <optional>
#include <utility>

#include "engine/capture.h"
#include "packet/icrc.h"
#include "packet/packet.h"
#include "verbs_model/verdict.h"

namespace uroce::model {

class TraceChecker final : public Capture {
 public:
  explicit TraceChecker(Verdict& verdict) : verdict_(verdict) {}

  void on_frame(Direction direction, Instant /*now*/, std::span<const uint8_t> frame) override {
    if (direction != Direction::kSent) return;
    PacketView view;
    const ParseResult result = parse_frame(frame, view);
    if (result == ParseResult::kNotRoce) return;
    if (result != ParseResult::kOk) return verdict_.fail("a bad packet was sent: %s", parse_result_name(result));
    if (!icrc_matches(view)) {
      return verdict_.fail("%s %06x to QP %06x was sent with a wrong iCRC", opcode_name(view.bth.opcode),
                           view.bth.psn.value(), view.bth.dest_qp);
    }
    const Operation what = view.info->operation;
    if (what == Operation::kAcknowledge || what == Operation::kSelectiveAck) check_answer(view);
  }

  /// The connection to that QP is over; the next one starts anew.
  void forget(uint32_t qpn) {
    std::erase_if(answers_, [qpn](const auto& answer) { return answer.first.first == qpn; });
  }

 private:
  /// The next PSN that the peer was told is expected.
  struct Answers {
    std::optional<Psn> by_ack;
    std::optional<Psn> by_nak;
    uint32_t msn = 0;
  };

  /// Acknowledgements never go back, nor do message counts. An ACK leaves out READs and atomics at the end, while a NAK
  /// has the PSN behind them, so an ACK after a NAK may have a smaller PSN.
  void check_answer(const PacketView& view) {
    const Aeth aeth = view.aeth();
    const bool ack = aeth_kind(aeth.syndrome) == AethKind::kAck;
    const Psn expected = ack ? view.bth.psn + 1 : view.bth.psn;
    const std::pair key(view.bth.dest_qp, view.bth.opcode);
    Answers& last = answers_.try_emplace(key, Answers{{}, {}, aeth.msn}).first->second;
    check_forward(view, "answer", last.by_ack, expected);
    if (!ack) check_forward(view, "NAK", last.by_nak, expected);
    if (Psn(aeth.msn).before(Psn(last.msn))) {
      verdict_.fail("to QP %06x: the MSN went back from %06x to %06x", view.bth.dest_qp, last.msn, aeth.msn);
    }
    (ack ? last.by_ack : last.by_nak) = expected;
    last.msn = aeth.msn;
  }

  void check_forward(const PacketView& view, const char* what, std::optional<Psn> from, Psn to) {
    if (!from || !to.before(*from)) return;
    verdict_.fail("to QP %06x: the %s went back from %06x to %06x", view.bth.dest_qp, what, from->value(), to.value());
  }

  Verdict& verdict_;
  std::map<std::pair<uint32_t, uint8_t>, Answers> answers_;  // ACKs and NAKs; selective ACKs
};

}  // namespace uroce::model
