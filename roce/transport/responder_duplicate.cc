// Requests that were received before: answered again, never carried out twice (READs excepted, which change nothing).
#include "transport/responder.h"

namespace uroce {

void Responder::on_duplicate(const PacketView& packet) {
  context_.counters().duplicate_request++;
  switch (packet.info->operation) {
    case Operation::kReadRequest: return on_duplicate_read(packet);
    case Operation::kCompareSwap:
    case Operation::kFetchAdd: return on_duplicate_atomic(packet);
    default:
      if (answer_ == Answer::kNone) answer_ = Answer::kAck;
      held_ = false;
      return;
  }
}

/// The requester went back: responses that were to follow will be asked for again.
void Responder::forget_replies_from(Psn psn) {
  uint32_t keep = replies_.head();
  while (keep != replies_.tail() && !psn.before(replies_.at(keep).end(context_.mtu))) keep++;
  replies_.truncate(keep);
}

void Responder::on_duplicate_read(const PacketView& packet) {
  const Reth reth = packet.reth();
  const uint32_t packets = reth.dma_length == 0 ? 1 : (reth.dma_length - 1) / context_.mtu + 1;
  // All of it must have been asked for before, and the region must still be the peer's to read.
  const bool known = reth.dma_length <= kMaxMessageBytes &&
                     packets <= static_cast<uint32_t>(-distance(epsn_, packet.bth.psn));
  uint8_t* memory = nullptr;
  const bool allowed = reth.dma_length == 0 ||
                       context_.env.memory.check(reth.rkey, context_.pd, reth.va, reth.dma_length, kRemoteRead,
                                                 context_.qpn, memory) == AccessCheck::kOk;
  if (!known || !allowed || !check_enabled(Operation::kReadRequest)) {
    context_.counters().rx_drop_bad_duplicate++;
    return;
  }
  forget_replies_from(packet.bth.psn);
  if (replies_.full()) {
    context_.counters().rx_drop_bad_duplicate++;
    return;
  }
  Reply reply;
  reply.psn = packet.bth.psn;
  reply.msn = msn_;
  reply.va = reth.va;
  reply.rkey = reth.rkey;
  reply.remaining = reth.dma_length;
  replies_.push(reply);
}

void Responder::on_duplicate_atomic(const PacketView& packet) {
  for (const SavedAtomic& saved : saved_atomics_) {
    if (!saved.valid || saved.psn != packet.bth.psn) continue;
    forget_replies_from(packet.bth.psn);
    if (replies_.full()) break;
    Reply reply;
    reply.atomic = true;
    reply.psn = saved.psn;
    reply.msn = msn_;
    reply.original = saved.original;
    replies_.push(reply);
    return;
  }
  context_.counters().rx_drop_bad_duplicate++;
}

}  // namespace uroce
