#include "base/guarded_memory.h"
#include "transport/datagram.h"

namespace uroce {

void UcReceiver::start() {
  keys_.reset();
  epsn_ = context_.attributes.rq_psn;
  message_.abandon();
}

/// Drops the rest of the message in silence; the next First or Only packet starts afresh, whatever its PSN. Always
/// returns false.
bool UcReceiver::drop_message(uint64_t& counter) {
  message_.abandon();
  counter++;
  return false;
}

Outcome UcReceiver::on_request(const PacketView& packet, Instant now) {
  if (context_.state == QpState::kErr) return Outcome::kGoesOn;
  const OpcodeInfo& info = *packet.info;
  if (!check_sequence(packet) || !check_length(packet)) return Outcome::kGoesOn;
  if (info.is_first() && !begin(packet, now)) return Outcome::kGoesOn;
  if (info.operation == Operation::kSend) {
    if (!receive_.fits(packet.payload_bytes)) {
      message_.abandon();
      return receive_.drop_too_long(now);
    }
    const Outcome outcome = store_send(packet, now);
    if (outcome != Outcome::kGoesOn) return outcome;
  } else if (!store_write(packet)) {
    return Outcome::kGoesOn;
  }
  message_.on_accepted(info);
  return info.is_last() ? finish(packet, now) : Outcome::kGoesOn;
}

bool UcReceiver::check_sequence(const PacketView& packet) {
  const bool in_order = packet.bth.psn == epsn_;
  epsn_ = packet.bth.psn + 1;
  if (!in_order || packet.info->is_first()) message_.abandon();  // the message under way will not be continued
  return message_.takes(*packet.info) || drop_message(context_.counters().rx_drop_uc_sequence);
}

/// Checks the length of the packet by itself, and against the length that a WRITE announced.
bool UcReceiver::check_length(const PacketView& packet) {
  if (!padding_fits(packet)) return drop_message(context_.counters().rx_drop_bad_pad);
  bool fits = InboundMessage::length_fits(packet, context_.mtu);
  if (packet.info->operation == Operation::kWrite) {
    fits = fits && (packet.info->is_first() ? InboundMessage::write_length_fits(packet, context_.mtu)
                                            : message_.write_goes_on(packet));
  }
  return fits || drop_message(context_.counters().rx_drop_uc_length);
}

bool UcReceiver::begin(const PacketView& packet, Instant now) {
  if (packet.info->operation == Operation::kWrite) return begin_write(packet, now);
  if (receive_.active()) {
    receive_.restart();  // the message for which the receive was taken was lost
  } else if (receive_.available()) {
    receive_.take();
  } else {
    return drop_message(context_.counters().rx_drop_no_receive);
  }
  return true;
}

bool UcReceiver::begin_write(const PacketView& packet, Instant now) {
  const Reth reth = packet.reth();
  // A zero-length WRITE touches nothing, so its key is not looked at, and tells nothing to the key guard.
  const bool keyless = reth.dma_length == 0;
  if ((context_.attributes.access & kRemoteWrite) == 0) {
    return drop_message(context_.counters().resp_remote_access_errors);
  }
  if (!keyless && !keys_.allows(reth.rkey, now)) {
    return drop_message(context_.counters().rx_drop_key_budget);
  }
  uint8_t* memory = nullptr;
  const bool good = keyless || context_.env.memory.check(reth.rkey, context_.pd, reth.va, reth.dma_length, kRemoteWrite,
                                                         context_.qpn, memory) == AccessCheck::kOk;
  if (!good) {
    drop_message(context_.counters().resp_remote_access_errors);
    if (keys_.on_wrong(reth.rkey, now)) {
      context_.events.on_responder_error(Cause::kKeyBudget);
      context_.events.raise(AsyncEvent::kQpAccessErr);
    }
    return false;
  }
  if (!keyless) keys_.on_good(reth.rkey);
  message_.begin_write(reth);
  return true;
}

Outcome UcReceiver::store_send(const PacketView& packet, Instant now) {
  const Cause cause = receive_.append(packet.payload, packet.payload_bytes);
  if (cause == Cause::kNone) return Outcome::kGoesOn;
  receive_.fail(WcStatus::kLocProtErr, cause, now);
  return Outcome::kFailed;
}

bool UcReceiver::store_write(const PacketView& packet) {
  const uint32_t bytes = packet.payload_bytes;
  uint8_t* memory = nullptr;
  if (bytes != 0) {
    const AccessCheck check = context_.env.memory.check(message_.write_rkey(), context_.pd, message_.write_va(), bytes,
                                                        kRemoteWrite, context_.qpn, memory);
    if (check != AccessCheck::kOk) return drop_message(context_.counters().resp_remote_access_errors);
    if (!try_copy(memory, packet.payload, bytes)) return drop_message(context_.counters().rx_drop_memory_gone);
  }
  message_.on_written(bytes);
  return true;
}

Outcome UcReceiver::finish(const PacketView& packet, Instant now) {
  Completion completion;
  if (packet.info->operation == Operation::kWrite) {
    context_.counters().rx_write_requests++;
    if (!packet.info->has(kHasImm)) return Outcome::kGoesOn;
    if (!receive_.active()) {
      if (!receive_.available()) {
        context_.counters().rx_drop_no_receive++;
        return Outcome::kGoesOn;
      }
      receive_.take();
    }
    completion.opcode = WcOpcode::kRecvRdmaWithImm;
    completion.byte_len = message_.write_length();
  } else {
    context_.counters().rx_sends++;
    completion.opcode = WcOpcode::kRecv;
    completion.byte_len = receive_.filled();
  }
  if (packet.info->has(kHasImm)) {
    completion.flags |= kWcWithImm;
    completion.imm_or_rkey = packet.imm().imm;
  }
  return receive_.complete(completion, packet.bth.solicited, now);
}

void UcReceiver::flush(Instant now) {
  message_.abandon();
  receive_.flush(now);
}

}  // namespace uroce
