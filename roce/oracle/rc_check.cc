// Looks at every completion and every byte.
#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "oracle/rc_end.h"

namespace uroce::oracle {

void RcEnd::check_landing(const Pending& op) {
  uint32_t at = 0;
  for (const Span& piece : op.landing.pieces) {
    const uint8_t* const got = landing_.data(piece);
    if (piece.bytes != 0 && std::memcmp(got, op.expected.data() + at, piece.bytes) != 0) {
      uint32_t i = 0;
      while (got[i] == op.expected[at + i]) i++;
      return verdict_.fail("QP %06x work request %" PRIu64 " (opcode %d, %u bytes): byte %u is %02x, not %02x",
                           side_.qp->qpn(), op.wr_id, static_cast<int>(op.opcode), op.bytes, at + i, got[i],
                           op.expected[at + i]);
    }
    at += piece.bytes;
    if (!landing_.gaps_hold(piece)) {
      return verdict_.fail("work request %" PRIu64 " wrote beside its element", op.wr_id);
    }
  }
  for (const Span& piece : op.landing.pieces) landing_.wipe(piece);
}

void RcEnd::retire(const Pending& op) {
  last_done_ = op.wr_id;
  if (op.shared_counter) {
    uint64_t value;
    const Span& result = op.landing.pieces[0];
    std::memcpy(&value, landing_.data(result), 8);
    auto& seen = peer_share()->counter_seen;
    if (value >= seen.size()) seen.resize(value + 1);
    if (seen[value]) return verdict_.fail("two FETCH_ADDs of the shared counter returned %" PRIu64, value);
    seen[value] = true;
    landing_.wipe(result);
  } else if (!op.landing.pieces.empty()) {
    check_landing(op);
  }
  if (!op.landing.pieces.empty()) landing_.give_back(op.landing);
  if (op.opcode == WrOpcode::kBindMw) window_ = Window::kBound;
  if (op.opcode == WrOpcode::kLocalInv) window_ = Window::kUnbound;
}

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
    default:
      return WcOpcode::kSend;
  }
}

}  // namespace

/// Everything before it is done too, with or without a completion of its own.
bool RcEnd::retire_before(const Completion& completion) {
  while (!pending_.empty() && pending_.front().wr_id < completion.wr_id) {
    if (pending_.front().signalled) {
      verdict_.fail("QP %06x: work request %" PRIu64 " completed before %" PRIu64, side_.qp->qpn(), completion.wr_id,
                    pending_.front().wr_id);
      return false;
    }
    retire(pending_.front());
    pending_.pop_front();
  }
  return true;
}

void RcEnd::on_sent(const Completion& completion) {
  if (completion.status != WcStatus::kSuccess) return on_failed(completion);
  if (broken_) return verdict_.fail("QP %06x: a success after a failure", side_.qp->qpn());
  if (!retire_before(completion)) return;
  if (pending_.empty() || pending_.front().wr_id != completion.wr_id || !pending_.front().signalled) {
    return verdict_.fail("QP %06x: a completion for work request %" PRIu64 " that nobody expects", side_.qp->qpn(),
                         completion.wr_id);
  }
  const Pending& op = pending_.front();
  if (completion.opcode != expected_opcode(op.opcode)) {
    verdict_.fail("work request %" PRIu64 " completed as opcode %d", op.wr_id, static_cast<int>(completion.opcode));
  }
  const bool has_length =
      op.opcode == WrOpcode::kRdmaRead || op.opcode == WrOpcode::kCompareSwap || op.opcode == WrOpcode::kFetchAdd;
  if (has_length && completion.byte_len != op.bytes) {
    verdict_.fail("work request %" PRIu64 ": byte_len %u, not %u", op.wr_id, completion.byte_len, op.bytes);
  }
  retire(op);
  pending_.pop_front();
  note_progress();
}

void RcEnd::check_message(const Incoming& message, const Receiver::Slot& slot) {
  uint32_t at = 0;
  for (const Span& piece : message.pieces) {
    for (uint32_t done = 0; done < piece.bytes;) {
      const auto [got, room] = Receiver::find(slot, at);
      const uint32_t n = std::min(room, piece.bytes - done);
      if (n == 0 || std::memcmp(got, peer_share()->source.data() + piece.offset + done, n) != 0) {
        return verdict_.fail("QP %06x: message of %u bytes differs in [%u, %u)", side_.qp->qpn(), message.bytes, at,
                             at + n);
      }
      at += n;
      done += n;
    }
  }
  const uint32_t used = message.opcode == WcOpcode::kRecv ? message.bytes : 0;
  if (!Receiver::rest_untouched(slot, used)) verdict_.fail("QP %06x: wrote beside a receive", side_.qp->qpn());
}

void RcEnd::on_received(const Completion& completion) {
  if (completion.status == WcStatus::kWrFlushErr && (stopped_ || broken_)) return on_flushed_receive(completion);
  if (completion.status != WcStatus::kSuccess) {
    return verdict_.fail("QP %06x receive %" PRIu64 " failed: %s (%s)", side_.qp->qpn(), completion.wr_id,
                         wc_status_name(completion.status), cause_text(completion.cause));
  }
  Receiver::Slot* slot = receiver_.complete(completion.wr_id, verdict_);
  if (slot == nullptr) return;
  if (incoming_.empty()) return verdict_.fail("QP %06x: a message that nobody sent", side_.qp->qpn());
  const Incoming& message = incoming_.front();
  if (completion.opcode != message.opcode || completion.byte_len != message.bytes ||
      completion.flags != message.flags || (message.flags != 0 && completion.imm_or_rkey != message.imm_or_rkey)) {
    return verdict_.fail(
        "QP %06x: received opcode %d, %u bytes, flags %d, %08x; sent opcode %d, %u bytes, flags %d, %08x",
        side_.qp->qpn(), static_cast<int>(completion.opcode), completion.byte_len, completion.flags,
        completion.imm_or_rkey, static_cast<int>(message.opcode), message.bytes, message.flags, message.imm_or_rkey);
  }
  check_message(message, *slot);
  if ((message.flags & kWcWithInv) != 0) window_ = Window::kUnbound;
  receiver_.recycle(*slot, message.opcode == WcOpcode::kRecv ? message.bytes : 0);
  incoming_.pop_front();
  received_++;
}

void RcEnd::check_memory() {
  for (uint32_t i = 0; i < target_.size; i++) {
    if (target_.data()[i] == model_[i]) continue;
    return verdict_.fail("QP %06x: byte %u of its memory is %02x, not %02x", side_.qp->qpn(), i, target_.data()[i],
                         model_[i]);
  }
}

std::string RcEnd::state() const {
  const Requester& requester = side_.qp->requester();
  char text[256];
  std::snprintf(text, sizeof text,
                "QP %06x %s: %" PRIu64 " to post, %zu pending, %zu to receive; una %06x next %06x in flight %u%s",
                side_.qp->qpn(), qp_state_name(side_.qp->state()), ops_left_, pending_.size(), incoming_.size(),
                requester.window().una().value(), requester.window().next().value(),
                requester.window().packets_in_flight(), requester.retry_timer().awaits_receive() ? ", RNR" : "");
  return text;
}

}  // namespace uroce::oracle
