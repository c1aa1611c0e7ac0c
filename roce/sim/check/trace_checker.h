// Watches what an engine sends, and holds it to rules that must hold on every cable.
#pragma once

#include <cinttypes>
#include <map>

#include "engine/capture.h"
#include "sim/check/verdict.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace uroce::sim {

class TraceChecker final : public Capture {
 public:
  explicit TraceChecker(Verdict& verdict) : verdict_(verdict) {}

  void on_frame(Direction direction, Instant /*now*/, std::span<const uint8_t> frame) override {
    if (direction != Direction::kSent) return;
    PacketView view;
    const ParseResult result = parse_frame(frame, view);
    if (result == ParseResult::kNotRoce) return;
    if (result != ParseResult::kOk || !icrc_matches(view)) return verdict_.fail("a bad packet was sent");
    if (view.info->operation == Operation::kAcknowledge) check_answer(view);
  }

 private:
  struct Answers {
    Psn expected;  // the next PSN, as the last ACK or NAK told it
    uint32_t msn = 0;
  };

  /// What is acknowledged stays acknowledged, and messages are not un-counted.
  void check_answer(const PacketView& view) {
    const Aeth aeth = view.aeth();
    const bool ack = aeth_kind(aeth.syndrome) == AethKind::kAck;
    const Psn expected = ack ? view.bth.psn + 1 : view.bth.psn;
    const auto [at, fresh] = answers_.try_emplace(view.bth.dest_qp, Answers{expected, aeth.msn});
    if (fresh) return;
    Answers& last = at->second;
    if (expected.before(last.expected)) {
      verdict_.fail("to QP %06x: an answer went back from %06x to %06x", view.bth.dest_qp, last.expected.value(),
                    expected.value());
    }
    if (Psn(aeth.msn).before(Psn(last.msn))) {
      verdict_.fail("to QP %06x: the MSN went back from %06x to %06x", view.bth.dest_qp, last.msn, aeth.msn);
    }
    last = {expected, aeth.msn};
  }

  Verdict& verdict_;
  std::map<uint32_t, Answers> answers_;
};

}  // namespace uroce::sim
