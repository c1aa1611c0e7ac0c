#include "oracle/receive_judge.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "base/check.h"

namespace uroce::oracle {

void ReceiveJudge::check_message(const ExpectedMessage& message, const Receiver::Slot& slot) {
  uint32_t at = 0;
  for (const Span& piece : message.pieces) {
    for (uint32_t done = 0; done < piece.bytes;) {
      const auto [got, room] = Receiver::find(slot, at);
      const uint32_t n = std::min(room, piece.bytes - done);
      if (n == 0 || std::memcmp(got, c_.peer->share.source.data() + piece.offset + done, n) != 0) {
        return c_.verdict.fail("QP %06x: message of %u bytes differs in [%u, %u)", c_.side.qp->qpn(), message.bytes, at,
                               at + n);
      }
      at += n;
      done += n;
    }
  }
  const uint32_t used = message.opcode == WcOpcode::kRecv ? message.bytes : 0;
  ensure(at == used, "the pieces of a message make up its length");
  if (!Receiver::rest_untouched(slot, used)) c_.verdict.fail("QP %06x: wrote beside a receive", c_.side.qp->qpn());
}

void ReceiveJudge::on_completion(const Completion& completion) {
  const bool flushed = completion.status == WcStatus::kWrFlushErr && (c_.stopped || c_.broken);
  if (!flushed && completion.status != WcStatus::kSuccess) {
    return c_.verdict.fail("QP %06x receive %" PRIu64 " failed: %s (%s)", c_.side.qp->qpn(), completion.wr_id,
                           wc_status_name(completion.status), cause_text(completion.cause));
  }
  Receiver::Slot* const slot = receiver_.complete(completion.wr_id, c_.verdict);
  if (slot == nullptr) return;
  if (flushed) return receiver_.wipe(*slot);
  if (c_.messages.empty()) return c_.verdict.fail("QP %06x: a message that nobody sent", c_.side.qp->qpn());
  const ExpectedMessage& message = c_.messages.oldest();
  if (completion.opcode != message.opcode || completion.byte_len != message.bytes ||
      completion.flags != message.flags || (message.flags != 0 && completion.imm_or_rkey != message.imm_or_rkey)) {
    return c_.verdict.fail(
        "QP %06x: received opcode %d, %u bytes, flags %d, %08x; sent opcode %d, %u bytes, flags %d, %08x",
        c_.side.qp->qpn(), static_cast<int>(completion.opcode), completion.byte_len, completion.flags,
        completion.imm_or_rkey, static_cast<int>(message.opcode), message.bytes, message.flags, message.imm_or_rkey);
  }
  check_message(message, *slot);
  if ((message.flags & kWcWithInv) != 0) c_.window.on_invalidated();
  receiver_.recycle(*slot, message.opcode == WcOpcode::kRecv ? message.bytes : 0);
  c_.messages.take_oldest();
}

}  // namespace uroce::oracle
