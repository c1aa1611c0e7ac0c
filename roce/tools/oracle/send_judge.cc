#include "oracle/send_judge.h"

#include <cinttypes>
#include <cstring>

#include "base/check.h"
#include "transport/requester.h"

namespace uroce::oracle {

namespace {

WcOpcode expected_opcode(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
      return WcOpcode::kRdmaWrite;
    case WrOpcode::kRdmaRead:
      return WcOpcode::kRdmaRead;
    case WrOpcode::kCompareSwap:
      return WcOpcode::kCompSwap;
    case WrOpcode::kFetchAdd:
      return WcOpcode::kFetchAdd;
    case WrOpcode::kBindMw:
      return WcOpcode::kBindMw;
    case WrOpcode::kLocalInv:
      return WcOpcode::kLocalInv;
    case WrOpcode::kFlush:
      return WcOpcode::kFlush;
    case WrOpcode::kAtomicWrite:
      return WcOpcode::kAtomicWrite;
    default:
      return WcOpcode::kSend;
  }
}

}  // namespace

void SendJudge::check_landing(const PostedOp& op) {
  uint32_t at = 0;
  for (const Span& piece : op.landing.pieces) {
    ensure(at + piece.bytes <= op.expected.size(), "what an operation brings is known when it is posted");
    const uint8_t* const got = c_.landing.data(piece);
    if (piece.bytes != 0 && std::memcmp(got, op.expected.data() + at, piece.bytes) != 0) {
      uint32_t i = 0;
      while (got[i] == op.expected[at + i]) i++;
      return c_.verdict.fail("QP %06x work request %" PRIu64 " (opcode %d, %u bytes): byte %u is %02x, not %02x",
                             c_.side.qp->qpn(), op.wr_id, static_cast<int>(op.opcode), op.bytes, at + i, got[i],
                             op.expected[at + i]);
    }
    at += piece.bytes;
    if (!c_.landing.gaps_hold(piece)) {
      return c_.verdict.fail("work request %" PRIu64 " wrote beside its element", op.wr_id);
    }
  }
  for (const Span& piece : op.landing.pieces) c_.landing.wipe(piece);
}

void SendJudge::retire_oldest() {
  const PostedOp& op = c_.sends.oldest();
  if (op.shared_counter) {
    ensure(op.landing.pieces.size() == 1, "the result of an atomic lands in one piece");
    uint64_t value;
    const Span& result = op.landing.pieces[0];
    std::memcpy(&value, c_.landing.data(result), 8);
    c_.peer->share.counter.check_result(value, c_.verdict);
    c_.landing.wipe(result);
  } else if (!op.landing.pieces.empty()) {
    check_landing(op);
  }
  if (!op.landing.pieces.empty()) c_.landing.give_back(op.landing);
  if (op.opcode == WrOpcode::kBindMw) c_.window.on_bound();
  if (op.opcode == WrOpcode::kLocalInv) c_.window.on_released();
  c_.sends.retire_oldest();
}

/// Everything before it is done too, with or without a completion of its own.
bool SendJudge::retire_before(const Completion& completion) {
  while (!c_.sends.empty() && c_.sends.oldest().wr_id < completion.wr_id) {
    if (c_.sends.oldest().signalled) {
      c_.verdict.fail("QP %06x: work request %" PRIu64 " completed before %" PRIu64, c_.side.qp->qpn(),
                      completion.wr_id, c_.sends.oldest().wr_id);
      return false;
    }
    retire_oldest();
  }
  return true;
}

void SendJudge::on_completion(const Completion& completion) {
  if (completion.status != WcStatus::kSuccess) return on_failed(completion);
  if (c_.broken) return c_.verdict.fail("QP %06x: a success after a failure", c_.side.qp->qpn());
  if (!retire_before(completion)) return;
  if (c_.sends.empty() || c_.sends.oldest().wr_id != completion.wr_id || !c_.sends.oldest().signalled) {
    return c_.verdict.fail("QP %06x: a completion for work request %" PRIu64 " that nobody expects", c_.side.qp->qpn(),
                           completion.wr_id);
  }
  const PostedOp& op = c_.sends.oldest();
  if (completion.opcode != expected_opcode(op.opcode)) {
    c_.verdict.fail("work request %" PRIu64 " completed as opcode %d", op.wr_id, static_cast<int>(completion.opcode));
  }
  const bool has_length =
      op.opcode == WrOpcode::kRdmaRead || op.opcode == WrOpcode::kCompareSwap || op.opcode == WrOpcode::kFetchAdd;
  if (has_length && completion.byte_len != op.bytes) {
    c_.verdict.fail("work request %" PRIu64 ": byte_len %u, not %u", op.wr_id, completion.byte_len, op.bytes);
  }
  retire_oldest();
  c_.note_progress();
}

/// The first failure has a reason, everything behind it is flushed: each once, in order, whether it asked for a
/// completion or not.
void SendJudge::on_failed(const Completion& completion) {
  const WcStatus status = completion.status;
  const uint32_t qpn = c_.side.qp->qpn();
  const bool gave_up =
      status == WcStatus::kRetryExcErr || (status == WcStatus::kRnrRetryExcErr && c_.options.has(Fault::kReceives));
  const bool fair =
      status == WcStatus::kWrFlushErr ? c_.broken || c_.stopped : gave_up && !c_.broken && c_.options.may_fail();
  if (!fair) {
    return c_.verdict.fail("QP %06x work request %" PRIu64 " failed: %s (%s); retries left %u", qpn, completion.wr_id,
                           wc_status_name(status), cause_text(completion.cause),
                           c_.side.qp->requester().retry_timer().retries_left());
  }
  if (completion.cause == Cause::kTimeout && !c_.wait.long_enough(c_.side, c_.share.leaps)) {
    return c_.verdict.fail("QP %06x gave up before it had waited for all of its retries", qpn);
  }
  if (!c_.broken && !retire_before(completion)) return;
  c_.broken = true;
  if (c_.sends.empty() || c_.sends.oldest().wr_id != completion.wr_id) {
    return c_.verdict.fail("QP %06x: work request %" PRIu64 " is flushed out of its turn, or twice", qpn,
                           completion.wr_id);
  }
  c_.sends.give_up_oldest();
}

}  // namespace uroce::oracle
