#include "base/guarded_memory.h"
#include "transport/datagram.h"

namespace uroce {

void UcReceiver::start() {
  keys_.reset();
  epsn_ = context_.attributes.rq_psn;
  in_message_ = false;
}

void UcReceiver::drop_message(uint64_t& counter) {
  in_message_ = false;
  counter++;
}

/// Any fault drops the rest of the message in silence; the next First or Only packet starts afresh, whatever its PSN.
void UcReceiver::on_request(const PacketView& packet, Instant now) {
  if (context_.state == QpState::kErr) return;
  const OpcodeInfo& info = *packet.info;
  const bool in_order = packet.bth.psn == epsn_;
  epsn_ = packet.bth.psn + 1;
  const bool continues = in_message_ && in_order && info.operation == operation_;
  if (!info.is_first() && !continues) return drop_message(context_.counters().rx_drop_uc_sequence);
  if (!padding_fits(packet)) return drop_message(context_.counters().rx_drop_bad_pad);
  if (!check_length(packet)) return drop_message(context_.counters().rx_drop_uc_length);
  if (info.is_first() && !begin(packet, now)) return;
  if (!place(packet, now)) return;
  if (info.is_last()) finish(packet, now);
}

/// Of the packet alone, and of what a WRITE announced.
bool UcReceiver::check_length(const PacketView& packet) const {
  const OpcodeInfo& info = *packet.info;
  const uint32_t bytes = packet.payload_bytes;
  if (!info.is_last()) {
    if (bytes != context_.mtu) return false;
  } else if (bytes > context_.mtu || (bytes == 0 && !info.is_first())) {
    return false;
  }
  if (info.operation != Operation::kWrite) return true;
  const uint32_t remaining = info.is_first() ? packet.reth().dma_length : write_remaining_;
  if (remaining > kMaxMessageBytes) return false;
  return info.is_last() ? bytes == remaining : bytes < remaining;
}

bool UcReceiver::begin(const PacketView& packet, Instant now) {
  const OpcodeInfo& info = *packet.info;
  in_message_ = true;
  operation_ = info.operation;
  if (operation_ == Operation::kWrite) return begin_write(packet, now);
  if (receive_.active()) {
    receive_.restart();  // the message that it was taken for was lost
  } else if (receive_.available()) {
    receive_.take();
  } else {
    drop_message(context_.counters().rx_drop_no_receive);
    return false;
  }
  return true;
}

bool UcReceiver::begin_write(const PacketView& packet, Instant now) {
  const Reth reth = packet.reth();
  // A zero-length WRITE touches nothing, so its key is not looked at, and nothing is learned from it.
  const bool keyless = reth.dma_length == 0;
  if ((context_.attributes.access & kRemoteWrite) == 0) {
    drop_message(context_.counters().resp_remote_access_errors);
    return false;
  }
  if (!keyless && !keys_.allows(reth.rkey, now)) {
    drop_message(context_.counters().rx_drop_key_budget);
    return false;
  }
  uint8_t* memory = nullptr;
  const bool good = keyless || context_.env.memory.check(reth.rkey, context_.pd, reth.va, reth.dma_length, kRemoteWrite,
                                                         context_.qpn, memory) == AccessCheck::kOk;
  if (!good) {
    drop_message(context_.counters().resp_remote_access_errors);
    if (keys_.on_wrong(reth.rkey, now)) {
      context_.env.observer.on_responder_error(context_.qp, Cause::kKeyBudget);
      context_.env.observer.on_qp_event(context_.qp, AsyncEvent::kQpAccessErr);
    }
    return false;
  }
  if (!keyless) keys_.on_good(reth.rkey);
  write_va_ = reth.va;
  write_rkey_ = reth.rkey;
  write_remaining_ = write_length_ = reth.dma_length;
  return true;
}

bool UcReceiver::place(const PacketView& packet, Instant now) {
  const uint32_t bytes = packet.payload_bytes;
  if (operation_ == Operation::kSend) {
    const Cause cause = receive_.append(packet.payload, bytes);
    if (cause == Cause::kNone) return true;
    receive_.fail(cause == Cause::kReceiveTooShort ? WcStatus::kLocLenErr : WcStatus::kLocProtErr, cause, now);
    context_.failed = true;
    return false;
  }
  uint8_t* memory = nullptr;
  if (bytes != 0) {
    const AccessCheck check =
        context_.env.memory.check(write_rkey_, context_.pd, write_va_, bytes, kRemoteWrite, context_.qpn, memory);
    if (check != AccessCheck::kOk) {
      drop_message(context_.counters().resp_remote_access_errors);
      return false;
    }
    if (!try_copy(memory, packet.payload, bytes)) {
      drop_message(context_.counters().rx_drop_memory_gone);
      return false;
    }
  }
  write_va_ += bytes;
  write_remaining_ -= bytes;
  return true;
}

void UcReceiver::finish(const PacketView& packet, Instant now) {
  in_message_ = false;
  Completion completion;
  if (operation_ == Operation::kWrite) {
    context_.counters().rx_write_requests++;
    if (!packet.info->has(kHasImm)) return;
    if (!receive_.active()) {
      if (!receive_.available()) {
        context_.counters().rx_drop_no_receive++;
        return;
      }
      receive_.take();
    }
    completion.opcode = WcOpcode::kRecvRdmaWithImm;
    completion.byte_len = write_length_;
  } else {
    context_.counters().rx_sends++;
    completion.opcode = WcOpcode::kRecv;
    completion.byte_len = receive_.filled();
  }
  if (packet.info->has(kHasImm)) {
    completion.flags |= kWcWithImm;
    completion.imm_or_rkey = packet.imm().imm;
  }
  receive_.complete(completion, packet.bth.solicited, now);
}

void UcReceiver::flush(Instant now) {
  in_message_ = false;
  receive_.flush(now);
}

}  // namespace uroce
