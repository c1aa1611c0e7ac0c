#include <cstring>

#include "transport/datagram.h"

namespace uroce {

void UcReceiver::start() {
  epsn_ = context_.attributes.rq_psn;
  in_message_ = false;
}

void UcReceiver::drop_message() {
  in_message_ = false;
  context_.counters().rx_drop_uc_sequence++;
}

/// Any fault drops the rest of the message in silence; the next First or Only packet starts afresh, whatever its PSN.
void UcReceiver::on_request(const PacketView& packet, Instant now) {
  if (context_.state == QpState::kErr) return;
  const OpcodeInfo& info = *packet.info;
  const bool in_order = packet.bth.psn == epsn_;
  epsn_ = packet.bth.psn + 1;
  if (info.is_first()) {
    if (!begin(packet)) return;
  } else if (!in_message_ || !in_order || info.operation != operation_) {
    return drop_message();
  }
  if (!place(packet, now)) return;
  if (info.is_last()) finish(packet, now);
}

bool UcReceiver::begin(const PacketView& packet) {
  const OpcodeInfo& info = *packet.info;
  in_message_ = true;
  operation_ = info.operation;
  if (operation_ == Operation::kWrite) return begin_write(packet);
  if (receive_.active()) {
    receive_.restart();  // the message that it was taken for was lost
  } else if (receive_.available()) {
    receive_.take();
  } else {
    context_.counters().rx_drop_no_receive++;
    in_message_ = false;
    return false;
  }
  return true;
}

bool UcReceiver::begin_write(const PacketView& packet) {
  const Reth reth = packet.reth();
  uint8_t* memory = nullptr;
  const bool allowed =
      (context_.attributes.access & kRemoteWrite) != 0 && reth.dma_length <= kMaxMessageBytes &&
      (reth.dma_length == 0 || context_.env.memory.check(reth.rkey, context_.pd, reth.va, reth.dma_length, kRemoteWrite,
                                                         context_.qpn, memory) == AccessCheck::kOk);
  if (!allowed) {
    context_.counters().resp_remote_access_errors++;
    in_message_ = false;
    return false;
  }
  write_va_ = reth.va;
  write_rkey_ = reth.rkey;
  write_remaining_ = write_length_ = reth.dma_length;
  return true;
}

bool UcReceiver::place(const PacketView& packet, Instant now) {
  const OpcodeInfo& info = *packet.info;
  const uint32_t bytes = packet.payload_bytes;
  const bool fits = info.is_last() ? bytes <= context_.mtu : bytes == context_.mtu;
  if (!fits) {
    drop_message();
    return false;
  }
  if (operation_ == Operation::kSend) {
    const Cause cause = receive_.append(packet.payload, bytes);
    if (cause == Cause::kNone) return true;
    receive_.fail(cause == Cause::kReceiveTooShort ? WcStatus::kLocLenErr : WcStatus::kLocProtErr, cause, now);
    context_.failed = true;
    return false;
  }
  if (info.is_last() ? bytes != write_remaining_ : bytes >= write_remaining_) {
    drop_message();
    return false;
  }
  uint8_t* memory = nullptr;
  if (bytes != 0) {
    const AccessCheck check =
        context_.env.memory.check(write_rkey_, context_.pd, write_va_, bytes, kRemoteWrite, context_.qpn, memory);
    if (check != AccessCheck::kOk) {
      drop_message();
      return false;
    }
    std::memcpy(memory, packet.payload, bytes);
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
