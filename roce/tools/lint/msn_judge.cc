#include "lint/msn_judge.h"

namespace uroce::lint {
namespace {

constexpr uint32_t kMsnMask = 0xFFFFFF;

}  // namespace

void MsnJudge::check(const Packet& packet, Psn psn, bool through) {
  const Sent* const sent = seen_.sent.find(psn);
  if (sent == nullptr) return;
  const uint32_t msn = packet.view.aeth().msn;
  const uint32_t messages = through ? sent->messages : sent->messages_before();
  if (epoch_ != sent->epoch) {
    epoch_ = sent->epoch;
    offset_ = msn - messages;
    return;
  }
  const uint32_t expected = (messages + offset_) & kMsnMask;
  if (msn == expected) return;
  report_.blame_responder(
      Rule::kMsn, packet.frame,
      sentence("%s for PSN %u with MSN %u; expected MSN %u", opcode_name(packet.opcode()), val(psn), msn, expected));
}

void MsnJudge::check_range(const Packet& packet, const Read& read) {
  const Sent* const sent = seen_.sent.find(read.psn);
  if (sent == nullptr || !seen_.sent.last().is_set()) return;
  const Sent* const newest = seen_.sent.before(seen_.numbers.next);
  if (newest == nullptr || newest->epoch != sent->epoch) return;
  const uint32_t msn = packet.view.aeth().msn;
  if (epoch_ != sent->epoch) {
    if (newest->psn != sent->psn || !packet.info().is_last()) return;
    epoch_ = sent->epoch;
    offset_ = msn - sent->messages;
    return;
  }
  const uint32_t least = (sent->messages_before() + offset_) & kMsnMask;
  const uint32_t most = newest->messages - sent->messages_before();
  if (((msn - least) & kMsnMask) <= most) return;
  report_.blame_responder(Rule::kMsn, packet.frame,
                          sentence("%s for PSN %u with MSN %u; expected MSN %u to %u", opcode_name(packet.opcode()),
                                   val(packet.psn()), msn, least, (least + most) & kMsnMask));
}

}  // namespace uroce::lint
