// Requests that were received before: answered again, never carried out twice (READs excepted, which change nothing).
//
// A READ or an atomic is answered again only if it was carried out before and the peer may still be waiting for the
// answer. Anybody can send a packet with an old PSN, so such a packet must not obtain anything that was not given
// before: no other memory, no hint whether a key is right, and no more traffic than retries cause.
#include "transport/memory_placement.h"
#include "transport/responder.h"

namespace uroce {

void Responder::on_duplicate(const PacketView& packet) {
  context_.counters().duplicate_request++;
  switch (packet.info->operation) {
    case Operation::kReadRequest:
      return on_duplicate_read(packet);
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
    case Operation::kFlush:
    case Operation::kAtomicWrite:
      return on_duplicate_atomic(packet);
    default:
      return ack_.require_ack();
  }
}

/// True when the reply was queued; false when it is on its way already or there is no room.
bool Responder::answer_again(const Reply& reply) {
  const ReplyQueue::Repeat repeat = replies_.repeat(reply, context_.peer.selective());
  if (repeat == ReplyQueue::Repeat::kFull) context_.counters().rx_drop_bad_duplicate++;
  return repeat == ReplyQueue::Repeat::kQueued;
}

void Responder::on_duplicate_read(const PacketView& packet) {
  const Reth reth = packet.reth();
  const Psn psn = packet.bth.psn;
  ExecutedLog::Entry* read = executed_.find_read(psn, reth);
  bool allowed = read != nullptr && allows(context_.attributes.access, Operation::kReadRequest);
  PdId pd = context_.pd;
  if (context_.type == QpType::kXrcRecv) {
    const SharedReceiveQueue* const queue = context_.xrc_queue(packet.xrceth().srqn);
    allowed = allowed && queue != nullptr;
    pd = queue != nullptr ? queue->pd() : 0;
  }
  uint8_t* memory = nullptr;
  if (allowed && reth.dma_length != 0) {
    // The program may have deregistered the memory in the meantime.
    allowed = context_.env.memory.check(reth.rkey, pd, reth.va, reth.dma_length, kRemoteRead, context_.qpn, memory) ==
              AccessCheck::kOk;
  }
  if (!allowed) {
    context_.counters().rx_drop_bad_duplicate++;
    return;
  }
  Reply reply;
  reply.again = true;
  reply.psn = psn;
  reply.msn = sequence_.msn();
  reply.pd = pd;
  reply.va = reth.va;
  reply.rkey = reth.rkey;
  reply.remaining = reth.dma_length;
  if (answer_again(reply)) executed_.on_repeated(*read, psn, packets_of(reth.dma_length, context_.mtu));
}

void Responder::on_duplicate_atomic(const PacketView& packet) {
  const ExecutedLog::Entry* atomic = executed_.find_atomic(packet.info->operation, packet.bth.psn, identity_of(packet));
  if (atomic == nullptr) {
    context_.counters().rx_drop_bad_duplicate++;
    return;
  }
  Reply reply;
  reply.atomic = packet.info->has(kHasAtomicEth);  // FLUSH and ATOMIC WRITE are answered like a READ of nothing
  reply.again = true;
  reply.psn = atomic->psn;
  reply.msn = sequence_.msn();
  reply.original = atomic->original;
  answer_again(reply);
}

}  // namespace uroce
