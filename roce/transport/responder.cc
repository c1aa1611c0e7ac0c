#include "transport/responder.h"

#include <algorithm>

#include "base/guarded_memory.h"
#include "transport/memory_placement.h"

namespace uroce {

Responder::Responder(QpContext& context, ReceiveQueue& own, SendQueue& sends)
    : context_(context),
      receive_(context, own),
      tags_(context, receive_, sends),
      early_(context.env.reorder_pool),
      ack_(context.env.ack_delay) {
  if (context.peer.enabled() && context.env.reorder_pool != nullptr) context.env.reorder_pool->prepare();
}

void Responder::make_room(uint32_t depth) {
  depth = std::max(depth, 1u);
  replies_.make_room(depth);
  executed_.make_room(depth);
}

/// Makes room for more at once. When there are to be fewer, the surplus room is kept.
void Responder::change_depth(uint32_t depth) {
  replies_.grow(depth);
  executed_.grow(depth);
}

void Responder::start() {
  reset();
  sequence_.start(context_.attributes.rq_psn);
  replies_.start(context_.mtu);
  executed_.start(context_.mtu);
}

void Responder::reset() {
  sequence_.reset();
  message_.abandon();
  established_ = answers_leave_ = false;
  executed_.clear();
  credit_limit_.reset();
  early_.clear();
  receive_.drop();
  replies_.clear();
  ack_.reset();
}

Outcome Responder::on_request(const PacketView& packet, Instant now) {
  if (context_.state == QpState::kErr) return Outcome::kGoesOn;  // only the answer that explains the error is sent
  const int32_t ahead = distance(sequence_.next(), packet.bth.psn);
  if (ahead == 0) {
    const Outcome outcome = on_in_order(packet, now);
    return outcome == Outcome::kGoesOn && !early_.empty() ? feed(now) : outcome;
  }
  if (ahead < 0) {
    on_duplicate(packet);
    return Outcome::kGoesOn;
  }
  context_.counters().out_of_sequence++;
  if (context_.peer.enabled() && hold(packet, now)) return Outcome::kGoesOn;
  if (sequence_.on_dropped(packet.bth.psn) == ReceiveSequence::Gap::kKnown) {
    context_.counters().rx_drop_after_nak++;
  } else {
    ack_.require_nak(make_syndrome(AethKind::kNak, static_cast<uint8_t>(NakCode::kPsnSequenceError)));
  }
  return Outcome::kGoesOn;
}

Outcome Responder::on_in_order(const PacketView& packet, Instant now) {
  sequence_.on_next();
  if (!established_) {
    established_ = true;
    if (context_.state == QpState::kRtr) context_.events.raise(AsyncEvent::kCommEst);
  }
  const OpcodeInfo& info = *packet.info;
  if (!message_.takes(info)) return refuse(refusal::kMalformed, now);
  if (context_.type == QpType::kXrcRecv && !enter_xrc_queue(packet)) return refuse(refusal::kXrcQueue, now);
  if (!allows(context_.attributes.access, info.operation)) return refuse(refusal::kNotEnabled, now);
  if (!InboundMessage::length_fits(packet, context_.mtu)) return refuse(refusal::kMalformed, now);
  switch (info.operation) {
    case Operation::kSend:
      return on_send(packet, now);
    case Operation::kWrite:
      return on_write(packet, now);
    case Operation::kReadRequest:
      return on_read(packet, now);
    case Operation::kFlush:
    case Operation::kAtomicWrite:
      return on_placement(packet, now);
    default:
      return on_atomic(packet, now);
  }
}

/// Each packet of a message names the shared receive queue that the first one named. False when there is no such queue,
/// or none of the domain, or not any more.
bool Responder::enter_xrc_queue(const PacketView& packet) {
  const uint32_t number = packet.xrceth().srqn;
  if (!packet.info->is_first()) return context_.srq != nullptr && context_.srq->xrc().number == number;
  SharedReceiveQueue* const queue = context_.xrc_queue(number);
  if (queue == nullptr) return false;
  context_.enter_xrc_queue(queue);
  return true;
}

void Responder::forget_xrc_queue() {
  receive_.drop();
  context_.enter_xrc_queue(nullptr);
}

bool allows(uint32_t access, Operation operation) {
  switch (operation) {
    case Operation::kWrite:
    case Operation::kAtomicWrite:
      return (access & kRemoteWrite) != 0;
    case Operation::kReadRequest:
      return (access & kRemoteRead) != 0;
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
      return (access & kRemoteAtomic) != 0;
    default:
      return true;
  }
}

Outcome Responder::on_send(const PacketView& packet, Instant now) {
  const OpcodeInfo& info = *packet.info;
  uint32_t skip = 0;
  if (info.is_first() && tags_.in_use()) {
    const TagArrivals::Begun begun = tags_.begin(packet);
    if (begun.not_ready) return receiver_not_ready();
    if (begun.why != nullptr) return refuse(*begun.why, now);
    skip = begun.skip;
  } else if (info.is_first()) {
    if (!receive_.available()) return receiver_not_ready();
    receive_.take();
  }
  const Cause cause = receive_.append(packet.payload + skip, packet.payload_bytes - skip);
  if (cause == Cause::kReceiveTooShort) return refuse(refusal::kReceiveTooShort, now);
  if (cause != Cause::kNone) return refuse(refusal::receive_unusable(cause), now);
  if (info.is_last()) {
    if (info.has(kHasIeth) && !context_.env.memory.invalidate(packet.ieth().rkey, context_.pd, context_.qpn)) {
      return refuse(refusal::kInvalidate, now);
    }
    if (deliver(packet, WcOpcode::kRecv, receive_.filled(), now) == Outcome::kFailed) return Outcome::kFailed;
    if (tags_.in_use()) tags_.end();
  }
  context_.counters().rx_sends += info.is_last() ? 1 : 0;
  return accept(packet, 1, now);
}

/// Why the WRITE is refused; nullptr when it may begin.
const Refusal* Responder::begin_write(const PacketView& packet) {
  const Reth reth = packet.reth();
  if (!InboundMessage::write_length_fits(packet, context_.mtu)) return &refusal::kMalformed;
  // A zero-length WRITE touches nothing, so its key is not looked at.
  if (reth.dma_length != 0) {
    uint8_t* memory = nullptr;
    const AccessCheck check =
        context_.env.memory.check(reth.rkey, context_.pd, reth.va, reth.dma_length, kRemoteWrite, context_.qpn, memory);
    if (check != AccessCheck::kOk) return &refusal::kKey;
  }
  message_.begin_write(reth);
  return nullptr;
}

Outcome Responder::on_write(const PacketView& packet, Instant now) {
  const OpcodeInfo& info = *packet.info;
  const uint32_t bytes = packet.payload_bytes;
  // When the key is refused, the receive that this packet's immediate would have consumed says so.
  const auto refuse_write = [&](const Refusal& why) {
    const bool access = why.code == NakCode::kRemoteAccessError;
    if (access && info.has(kHasImm) && receive_.available()) receive_.take();
    return refuse(why, now);
  };
  if (info.is_first()) {
    if (const Refusal* why = begin_write(packet)) return refuse_write(*why);
  }
  if (!message_.write_goes_on(packet)) return refuse(refusal::kMalformed, now);
  // Checked before any byte is stored, because this packet will come again when a receive is there.
  if (info.has(kHasImm) && !receive_.available()) return receiver_not_ready();
  if (bytes != 0) {
    // Checked again for each packet: the program may have deregistered the region in the middle of the message.
    uint8_t* memory = nullptr;
    const AccessCheck check = context_.env.memory.check(message_.write_rkey(), context_.pd, message_.write_va(), bytes,
                                                        kRemoteWrite, context_.qpn, memory);
    if (check != AccessCheck::kOk) return refuse_write(refusal::kKey);
    if (!try_copy(memory, packet.payload, bytes)) return refuse_write(refusal::kMemoryGone);
  }
  message_.on_written(bytes);
  if (info.is_last()) {
    context_.counters().rx_write_requests++;
    if (info.has(kHasImm)) {
      receive_.take();
      const Outcome outcome = deliver(packet, WcOpcode::kRecvRdmaWithImm, message_.write_length(), now);
      if (outcome == Outcome::kFailed) return outcome;
    }
  }
  return accept(packet, 1, now);
}

Outcome Responder::on_read(const PacketView& packet, Instant now) {
  const Reth reth = packet.reth();
  if (reth.dma_length > kMaxMessageBytes) return refuse(refusal::kMalformed, now);
  if (!replies_.make_place(context_.attributes.max_dest_rd_atomic)) return refuse(refusal::kTooManyReads, now);
  if (reth.dma_length != 0) {
    uint8_t* memory = nullptr;
    const AccessCheck check =
        context_.env.memory.check(reth.rkey, context_.pd, reth.va, reth.dma_length, kRemoteRead, context_.qpn, memory);
    if (check != AccessCheck::kOk) return refuse(refusal::kKey, now);
  }
  context_.counters().rx_read_requests++;
  executed_.add_read(packet.bth.psn, reth);
  Reply reply;
  reply.psn = packet.bth.psn;
  reply.msn = sequence_.msn() + 1;
  reply.pd = context_.pd;
  reply.va = reth.va;
  reply.rkey = reth.rkey;
  reply.remaining = reth.dma_length;
  replies_.push(reply);
  return accept(packet, packets_of(reth.dma_length, context_.mtu), now);
}

Outcome Responder::on_atomic(const PacketView& packet, Instant now) {
  const AtomicEth eth = packet.atomic_eth();
  if ((eth.va & 7) != 0) return refuse(refusal::kMalformed, now);
  if (!replies_.make_place(context_.attributes.max_dest_rd_atomic)) return refuse(refusal::kTooManyReads, now);
  uint8_t* memory = nullptr;
  const AccessCheck check =
      context_.env.memory.check(eth.rkey, context_.pd, eth.va, 8, kRemoteAtomic, context_.qpn, memory);
  if (check != AccessCheck::kOk) return refuse(refusal::kKey, now);
  if ((reinterpret_cast<uintptr_t>(memory) & 7) != 0) return refuse(refusal::kMisaligned, now);
  context_.counters().rx_atomic_requests++;
  // The operation is atomic towards the program's own CPU accesses, too.
  auto* word = reinterpret_cast<uint64_t*>(static_cast<void*>(memory));
  uint64_t original;
  try {
    const bool add = packet.info->operation == Operation::kFetchAdd;
    original = add ? guarded_fetch_add(word, eth.swap_add) : guarded_compare_swap(word, eth.compare, eth.swap_add);
  } catch (const MemoryFault&) {
    return refuse(refusal::kMemoryGone, now);
  }
  executed_.add_atomic(packet.info->operation, packet.bth.psn, eth, original);
  Reply reply;
  reply.atomic = true;
  reply.psn = packet.bth.psn;
  reply.msn = sequence_.msn() + 1;
  reply.original = original;
  replies_.push(reply);
  return accept(packet, 1, now);
}

Outcome Responder::on_placement(const PacketView& packet, Instant now) {
  if (!replies_.make_place(context_.attributes.max_dest_rd_atomic)) return refuse(refusal::kTooManyReads, now);
  const AtomicEth identity = identity_of(packet);
  if (const Refusal* why = place(context_, packet, identity)) return refuse(*why, now);
  executed_.add_atomic(packet.info->operation, packet.bth.psn, identity, 0);
  Reply reply;
  reply.psn = packet.bth.psn;
  reply.msn = sequence_.msn() + 1;
  replies_.push(reply);
  return accept(packet, 1, now);
}

/// The packet was carried out: the next one is expected, and the peer gets an ACK if it asked for one.
Outcome Responder::accept(const PacketView& packet, uint32_t psns, Instant now) {
  const bool has_reply = packet.info->operation != Operation::kSend && packet.info->operation != Operation::kWrite;
  sequence_.on_accepted(psns, packet.info->is_last(), has_reply);
  message_.on_accepted(*packet.info);
  if (ack_.state() == Acknowledger::State::kNak && sequence_.review_nak() == ReceiveSequence::Nak::kObsolete) {
    ack_.withdraw_nak();
  }
  if (has_reply) {
    ack_.end_delay();  // answers leave in order: the response also acknowledges what came before it
  } else if (packet.bth.ack_req) {
    ack_.on_message(replies_.empty(), now);
  }
  return Outcome::kGoesOn;
}

/// Completes a receive. kFailed when the completion is lost: the program will never learn of the message, so the peer
/// must not believe that it was delivered.
Outcome Responder::deliver(const PacketView& packet, WcOpcode opcode, uint32_t byte_len, Instant now) {
  Completion completion;
  completion.opcode = opcode;
  completion.byte_len = byte_len;
  if (packet.info->has(kHasImm)) {
    completion.flags |= kWcWithImm;
    completion.imm_or_rkey = packet.imm().imm;
  } else if (packet.info->has(kHasIeth)) {
    completion.flags |= kWcWithInv;
    completion.imm_or_rkey = packet.ieth().rkey;
  }
  const Outcome outcome = receive_.complete(completion, packet.bth.solicited, now);
  if (outcome == Outcome::kGoesOn) return outcome;
  ack_.require_nak(make_syndrome(AethKind::kNak, static_cast<uint8_t>(NakCode::kRemoteOperationalError)));
  context_.events.on_responder_error(Cause::kCqOverrun);
  return outcome;
}

/// Refuses a request, with a fatal NAK unless it is to be silent: the receive in use fails, and the QP goes to error.
Outcome Responder::refuse(const Refusal& why, Instant now) {
  if (!receive_.active()) return refuse_reply(why);
  end_with(why);
  receive_.fail(why.receive_status, why.cause, now);
  return Outcome::kFailed;
}

/// The same for a request that uses no receive. A receive that is in use belongs to a later message, and is flushed.
Outcome Responder::refuse_reply(const Refusal& why) {
  end_with(why);
  const bool access = why.code == NakCode::kRemoteAccessError;
  context_.events.raise(access ? AsyncEvent::kQpAccessErr : AsyncEvent::kQpReqErr);
  return Outcome::kFailed;
}

void Responder::end_with(const Refusal& why) {
  if (why.silent) {
    ack_.end_delay();
    answers_leave_ = true;  // as they do before a NAK
  } else {
    ack_.require_nak(make_syndrome(AethKind::kNak, static_cast<uint8_t>(why.code)));
  }
  if (why.code == NakCode::kRemoteAccessError) context_.counters().resp_remote_access_errors++;
  context_.events.on_responder_error(why.cause);
}

Outcome Responder::receiver_not_ready() {
  context_.counters().out_of_buffer++;
  sequence_.on_not_ready();
  ack_.require_nak(make_syndrome(AethKind::kRnrNak, context_.attributes.min_rnr_timer));
  return Outcome::kGoesOn;
}

void Responder::flush(Instant now) {
  message_.abandon();
  early_.clear();
  if (ack_.state() != Acknowledger::State::kNak && !answers_leave_) silence();
  receive_.flush(now);
}

void Responder::silence() {
  replies_.clear();
  ack_.silence();
}

}  // namespace uroce
