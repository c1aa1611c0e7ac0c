#include "transport/responder.h"

#include <algorithm>
#include <utility>

#include "base/guarded_memory.h"

namespace uroce {

namespace {

constexpr uint32_t kReadsLastMax = 1 << 22;  // an ACK for older packets than that would look like one for newer ones

}  // namespace

Responder::Responder(QpContext& context, ReceiveQueue& own)
    : context_(context), receive_(context, own), early_(context.env.reorder_pool), replies_(1) {
  if (context.peer.enabled() && context.env.reorder_pool != nullptr) context.env.reorder_pool->prepare();
}

void Responder::make_room(uint32_t depth) {
  depth = std::max(depth, 1u);
  Ring<Reply> replies(2 * depth);  // requests in flight, and as many of them asked for again
  executed_.assign(depth, Executed{});
  replies_ = std::move(replies);
}

void Responder::start() {
  reset();
  epsn_ = context_.attributes.rq_psn;
}

/// Room for more is made at once; with fewer than before there is simply some to spare.
void Responder::change_depth(uint32_t depth) {
  if (depth <= executed_.size()) return;
  Ring<Reply> larger(2 * depth);
  executed_.reserve(depth);  // behind here nothing fails
  for (; !replies_.empty(); replies_.pop()) larger.push(replies_.front());
  replies_ = std::move(larger);
  std::rotate(executed_.begin(), executed_.begin() + executed_next_, executed_.end());
  executed_next_ = static_cast<uint32_t>(executed_.size());
  executed_.resize(depth);
}

void Responder::reset() {
  msn_ = reads_last_ = 0;
  out_of_sequence_ = in_message_ = established_ = missed_ = false;
  executed_next_ = 0;
  std::fill(executed_.begin(), executed_.end(), Executed{});
  answers_ = 0;
  message_unanswered_ = false;
  credits_granted_ = false;
  early_.clear();
  receive_.drop();
  silence();
}

void Responder::on_request(const PacketView& packet, Instant now) {
  if (context_.state == QpState::kErr) return;  // only the answer that explains the error is still to go
  const int32_t ahead = distance(epsn_, packet.bth.psn);
  if (ahead == 0) {
    on_in_order(packet, now);
    if (!early_.empty()) feed(now);
  } else if (ahead < 0) {
    on_duplicate(packet);
  } else {
    context_.counters().out_of_sequence++;
    if (context_.peer.enabled() && hold(packet, now)) return;
    if (!missed_ || missed_until_.before(packet.bth.psn)) missed_until_ = packet.bth.psn;
    missed_ = true;
    if (out_of_sequence_) {
      context_.counters().rx_drop_after_nak++;
      return;
    }
    out_of_sequence_ = true;
    request_nak(make_syndrome(AethKind::kNak, static_cast<uint8_t>(NakCode::kPsnSequenceError)));
  }
}

void Responder::on_in_order(const PacketView& packet, Instant now) {
  out_of_sequence_ = false;
  if (!established_) {
    established_ = true;
    if (context_.state == QpState::kRtr) context_.env.observer.on_qp_event(context_.qp, AsyncEvent::kCommEst);
  }
  const OpcodeInfo& info = *packet.info;
  if (!check_sequence(info)) {
    return refuse(NakCode::kInvalidRequest, Cause::kRequestMalformed, WcStatus::kRemInvReqErr, now);
  }
  if (!check_enabled(info.operation)) {
    return refuse(NakCode::kInvalidRequest, Cause::kRequestNotEnabled, WcStatus::kRemInvReqErr, now);
  }
  if (!check_length(packet)) {
    return refuse(NakCode::kInvalidRequest, Cause::kRequestMalformed, WcStatus::kRemInvReqErr, now);
  }
  switch (info.operation) {
    case Operation::kSend:
      return on_send(packet, now);
    case Operation::kWrite:
      return on_write(packet, now);
    case Operation::kReadRequest:
      return on_read(packet, now);
    default:
      return on_atomic(packet, now);
  }
}

bool Responder::check_sequence(const OpcodeInfo& info) const {
  if (!in_message_) return info.is_first();
  return !info.is_first() && info.operation == operation_;
}

bool Responder::check_enabled(Operation operation) const {
  const uint32_t access = context_.attributes.access;
  switch (operation) {
    case Operation::kWrite:
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

bool Responder::check_length(const PacketView& packet) const {
  if (!packet.info->has(kHasPayload)) return true;
  const uint32_t bytes = packet.payload_bytes;
  if (!padding_fits(packet)) return false;
  if (!packet.info->is_last()) return bytes == context_.mtu;
  return bytes <= context_.mtu && (packet.info->is_first() || bytes != 0);
}

void Responder::on_send(const PacketView& packet, Instant now) {
  const OpcodeInfo& info = *packet.info;
  if (info.is_first()) {
    if (!receive_.available()) return receiver_not_ready();
    receive_.take();
  }
  const Cause cause = receive_.append(packet.payload, packet.payload_bytes);
  if (cause == Cause::kReceiveTooShort) {
    return refuse(NakCode::kInvalidRequest, cause, WcStatus::kLocLenErr, now);
  }
  if (cause != Cause::kNone) {
    return refuse(NakCode::kRemoteOperationalError, cause, WcStatus::kLocProtErr, now);
  }
  if (info.is_last()) {
    if (info.has(kHasIeth) && !context_.env.memory.invalidate(packet.ieth().rkey, context_.pd, context_.qpn)) {
      return refuse(NakCode::kRemoteAccessError, Cause::kRemoteInvalidate, WcStatus::kLocAccessErr, now);
    }
    if (!deliver(packet, WcOpcode::kRecv, receive_.filled(), now)) return;
  }
  context_.counters().rx_sends += info.is_last() ? 1 : 0;
  accept(packet, 1, now);
}

bool Responder::begin_write(const PacketView& packet, Instant now) {
  const Reth reth = packet.reth();
  const bool only = packet.info->is_last();
  const bool length_fits = only ? reth.dma_length == packet.payload_bytes : reth.dma_length > context_.mtu;
  if (reth.dma_length > kMaxMessageBytes || !length_fits) {
    refuse(NakCode::kInvalidRequest, Cause::kRequestMalformed, WcStatus::kRemInvReqErr, now);
    return false;
  }
  // A zero-length WRITE touches nothing, so its key is not looked at.
  if (reth.dma_length != 0) {
    uint8_t* memory = nullptr;
    const AccessCheck check =
        context_.env.memory.check(reth.rkey, context_.pd, reth.va, reth.dma_length, kRemoteWrite, context_.qpn, memory);
    if (check != AccessCheck::kOk) {
      refuse_key(check, now);
      return false;
    }
  }
  write_va_ = reth.va;
  write_rkey_ = reth.rkey;
  write_remaining_ = write_length_ = reth.dma_length;
  return true;
}

void Responder::on_write(const PacketView& packet, Instant now) {
  const OpcodeInfo& info = *packet.info;
  const uint32_t bytes = packet.payload_bytes;
  if (info.is_first() && !begin_write(packet, now)) return;
  const bool length_fits = info.is_last() ? bytes == write_remaining_ : bytes < write_remaining_;
  if (!length_fits) return refuse(NakCode::kInvalidRequest, Cause::kRequestMalformed, WcStatus::kRemInvReqErr, now);
  // Before any byte is placed: this packet will come again when a receive is there.
  if (info.has(kHasImm) && !receive_.available()) return receiver_not_ready();
  if (bytes != 0) {
    // Checked again for each packet: the program may have deregistered the region in the middle of the message.
    uint8_t* memory = nullptr;
    const AccessCheck check =
        context_.env.memory.check(write_rkey_, context_.pd, write_va_, bytes, kRemoteWrite, context_.qpn, memory);
    if (check != AccessCheck::kOk) return refuse_key(check, now);
    if (!try_copy(memory, packet.payload, bytes)) return refuse_memory_gone(now);
  }
  write_va_ += bytes;
  write_remaining_ -= bytes;
  if (info.is_last()) {
    context_.counters().rx_write_requests++;
    if (info.has(kHasImm)) {
      receive_.take();
      if (!deliver(packet, WcOpcode::kRecvRdmaWithImm, write_length_, now)) return;
    }
  }
  accept(packet, 1, now);
}

/// Is there room for one more READ or atomic? What is answered again does not count: it stands before everything that
/// is answered for the first time, and gives way.
bool Responder::may_reply() {
  uint32_t owed = 0;
  for (uint32_t at = replies_.head(); at != replies_.tail(); at++) owed += replies_.at(at).again ? 0 : 1;
  if (owed >= context_.attributes.max_dest_rd_atomic) return false;
  if (replies_.full()) replies_.pop();
  return true;
}

/// Takes the place of the oldest one.
Responder::Executed& Responder::remember(const PacketView& packet) {
  Executed& executed = executed_[executed_next_];
  executed_next_ = (executed_next_ + 1) % static_cast<uint32_t>(executed_.size());
  executed = Executed{};
  executed.operation = packet.info->operation;
  executed.psn = executed.furthest_replay = packet.bth.psn;
  return executed;
}

void Responder::on_read(const PacketView& packet, Instant now) {
  const Reth reth = packet.reth();
  if (reth.dma_length > kMaxMessageBytes) {
    return refuse(NakCode::kInvalidRequest, Cause::kRequestMalformed, WcStatus::kRemInvReqErr, now);
  }
  if (!may_reply()) return refuse(NakCode::kInvalidRequest, Cause::kReadResources, WcStatus::kRemInvReqErr, now);
  if (reth.dma_length != 0) {
    uint8_t* memory = nullptr;
    const AccessCheck check =
        context_.env.memory.check(reth.rkey, context_.pd, reth.va, reth.dma_length, kRemoteRead, context_.qpn, memory);
    if (check != AccessCheck::kOk) return refuse_key(check, now);
  }
  context_.counters().rx_read_requests++;
  remember(packet).read = reth;
  Reply reply;
  reply.psn = packet.bth.psn;
  reply.msn = msn_ + 1;
  reply.va = reth.va;
  reply.rkey = reth.rkey;
  reply.remaining = reth.dma_length;
  replies_.push(reply);
  accept(packet, packets_of(reth.dma_length, context_.mtu), now);
}

void Responder::on_atomic(const PacketView& packet, Instant now) {
  const AtomicEth eth = packet.atomic_eth();
  if ((eth.va & 7) != 0) {
    return refuse(NakCode::kInvalidRequest, Cause::kRequestMalformed, WcStatus::kRemInvReqErr, now);
  }
  if (!may_reply()) return refuse(NakCode::kInvalidRequest, Cause::kReadResources, WcStatus::kRemInvReqErr, now);
  uint8_t* memory = nullptr;
  const AccessCheck check =
      context_.env.memory.check(eth.rkey, context_.pd, eth.va, 8, kRemoteAtomic, context_.qpn, memory);
  if (check != AccessCheck::kOk) return refuse_key(check, now);
  // Aligned for the peer, but not here: the region was registered with an iova of its own.
  if ((reinterpret_cast<uintptr_t>(memory) & 7) != 0) {
    return refuse(NakCode::kRemoteOperationalError, Cause::kRequestMalformed, WcStatus::kRemOpErr, now);
  }
  context_.counters().rx_atomic_requests++;
  // Atomic towards the program's own CPU accesses too.
  auto* word = reinterpret_cast<uint64_t*>(static_cast<void*>(memory));
  uint64_t original;
  try {
    const bool add = packet.info->operation == Operation::kFetchAdd;
    original = add ? guarded_fetch_add(word, eth.swap_add) : guarded_compare_swap(word, eth.compare, eth.swap_add);
  } catch (const MemoryFault&) {
    return refuse_memory_gone(now);
  }
  Executed& executed = remember(packet);
  executed.atomic = eth;
  executed.original = original;
  Reply reply;
  reply.atomic = true;
  reply.psn = packet.bth.psn;
  reply.msn = msn_ + 1;
  reply.original = original;
  replies_.push(reply);
  accept(packet, 1, now);
}

/// The packet is carried out: the next one is expected, and the peer hears of it if it wants to.
void Responder::accept(const PacketView& packet, uint32_t psns, Instant now) {
  epsn_ += psns;
  operation_ = packet.info->operation;
  in_message_ = !packet.info->is_last();
  if (!in_message_) msn_++;
  if (missed_ && missed_until_.before(epsn_)) missed_ = false;
  // A NAK not sent yet names epsn_ when it leaves. It is still true if something from there on was dropped.
  if (answer_ == Answer::kNak) {
    if (missed_) {
      out_of_sequence_ = true;
    } else {
      answer_ = Answer::kNone;
    }
  }
  const bool has_reply = packet.info->operation != Operation::kSend && packet.info->operation != Operation::kWrite;
  reads_last_ = has_reply ? std::min(reads_last_ + psns, kReadsLastMax) : 0;
  if (has_reply) {
    held_ = false;  // answers leave in order: the response also acknowledges what came before it
  } else if (packet.bth.ack_req) {
    request_ack(now);
  }
}

/// False: the completion is lost, and the QP fails. The program will never hear of the message, so the peer must not
/// believe that it was delivered.
bool Responder::deliver(const PacketView& packet, WcOpcode opcode, uint32_t byte_len, Instant now) {
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
  receive_.complete(completion, packet.bth.solicited, now);
  if (!context_.failed) return true;
  request_nak(make_syndrome(AethKind::kNak, static_cast<uint8_t>(NakCode::kRemoteOperationalError)));
  context_.env.observer.on_responder_error(context_.qp, Cause::kCqOverrun);
  return false;
}

/// A fatal NAK: the receive in use fails, and the QP goes to error.
void Responder::refuse(NakCode code, Cause cause, WcStatus receive_status, Instant now) {
  request_nak(make_syndrome(AethKind::kNak, static_cast<uint8_t>(code)));
  if (code == NakCode::kRemoteAccessError) context_.counters().resp_remote_access_errors++;
  context_.env.observer.on_responder_error(context_.qp, cause);
  if (receive_.active()) {
    receive_.fail(receive_status, cause, now);
  } else {
    const bool access = code == NakCode::kRemoteAccessError;
    context_.env.observer.on_qp_event(context_.qp, access ? AsyncEvent::kQpAccessErr : AsyncEvent::kQpReqErr);
  }
  context_.failed = true;
}

void Responder::refuse_key(AccessCheck /*check*/, Instant now) {
  refuse(NakCode::kRemoteAccessError, Cause::kRemoteKey, WcStatus::kLocAccessErr, now);
}

/// The key is good, but the memory is not there: for the peer that is no difference.
void Responder::refuse_memory_gone(Instant now) {
  refuse(NakCode::kRemoteAccessError, Cause::kMemoryGone, WcStatus::kLocAccessErr, now);
}

void Responder::receiver_not_ready() {
  context_.counters().out_of_buffer++;
  out_of_sequence_ = true;  // what follows is dropped in silence until this packet comes again
  request_nak(make_syndrome(AethKind::kRnrNak, context_.attributes.min_rnr_timer));
}

void Responder::flush(Instant now) {
  in_message_ = false;
  early_.clear();
  if (answer_ != Answer::kNak) silence();
  receive_.flush(now);
}

void Responder::silence() {
  replies_.clear();
  answer_ = Answer::kNone;
  held_ = false;
}

}  // namespace uroce
