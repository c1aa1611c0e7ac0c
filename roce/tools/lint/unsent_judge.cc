#include "lint/unsent_judge.h"

namespace uroce::lint {
namespace {

// By how much a capture may show the two directions in the wrong order.
constexpr uint64_t kSwapFrames = 4;
constexpr int64_t kSwapNs = 200'000;

}  // namespace

void UnsentJudge::on_old(const Packet& packet) {
  if (distance(packet.psn(), seen_.numbers.first) <= kFar) return;
  report_.blame_responder(
      Rule::kAckUnsent, packet.frame,
      sentence("%s for PSN %u; expected PSN %u to %u, of what was sent", opcode_name(packet.opcode()),
               val(packet.psn()), val(seen_.numbers.acked), val(seen_.numbers.next - 1)));
}

void UnsentJudge::on_early(const Packet& packet, Psn psn, Rule rule) {
  blame();
  early_ = Early{psn, seen_.numbers.next - 1, packet.frame, packet.time, packet.opcode(), rule};
}

void UnsentJudge::compare(const Packet& request, uint32_t span) {
  if (covers(request.psn(), span, early_->psn) && request.frame - early_->frame <= kSwapFrames &&
      request.time.ns - early_->time.ns <= kSwapNs) {
    early_.reset();
  }
  blame();
}

void UnsentJudge::blame() {
  if (!early_) return;
  const char* const verb = early_->rule == Rule::kSackUnsent ? "holds" : "for";
  report_.blame_responder(early_->rule, early_->frame,
                          sentence("%s %s PSN %u; expected at most PSN %u, the last that was sent",
                                   opcode_name(early_->opcode), verb, val(early_->psn), val(early_->newest)));
  early_.reset();
}

}  // namespace uroce::lint
