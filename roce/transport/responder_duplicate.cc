// Requests that were received before: answered again, never carried out twice (READs excepted, which change nothing).
#include <utility>

#include "transport/responder.h"

namespace uroce {

void Responder::on_duplicate(const PacketView& packet) {
  context_.counters().duplicate_request++;
  switch (packet.info->operation) {
    case Operation::kReadRequest:
      return on_duplicate_read(packet);
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
      return on_duplicate_atomic(packet);
    default:
      if (answer_ == Answer::kNone) answer_ = Answer::kAck;
      held_ = false;
      return;
  }
}

/// Puts the answer where its PSN belongs: in place of what is left of the same one, or before all later ones. Those
/// stay: the network may have repeated a request that the requester did not.
void Responder::answer_again(Reply reply) {
  const Psn end = reply.end(context_.mtu);
  uint32_t at = replies_.head();
  while (at != replies_.tail() && !reply.psn.before(replies_.at(at).end(context_.mtu))) at++;
  if (at != replies_.tail()) {
    Reply& queued = replies_.at(at);
    if (queued.psn.before(reply.psn)) return;  // will come anyway
    if (queued.psn.before(end)) {
      reply.again = queued.again;
      // Part of it again, and then what was still to come.
      const uint64_t queued_end = queued.va + queued.remaining;
      const bool same =
          context_.peer.selective() && !reply.atomic && !queued.atomic && queued.rkey == reply.rkey &&
          queued.va - reply.va == uint64_t{context_.mtu} * static_cast<uint32_t>(distance(reply.psn, queued.psn));
      if (same && end.before(queued.end(context_.mtu))) reply.remaining = static_cast<uint32_t>(queued_end - reply.va);
      queued = reply;
      return;
    }
  }
  if (replies_.full()) {
    context_.counters().rx_drop_bad_duplicate++;
    return;
  }
  replies_.push(reply);
  for (uint32_t i = replies_.tail() - 1; i != at; i--) std::swap(replies_.at(i), replies_.at(i - 1));
}

void Responder::on_duplicate_read(const PacketView& packet) {
  const Reth reth = packet.reth();
  const uint32_t packets = reth.dma_length == 0 ? 1 : (reth.dma_length - 1) / context_.mtu + 1;
  // All of it must have been asked for before, and the region must still be the peer's to read.
  const bool known =
      reth.dma_length <= kMaxMessageBytes && packets <= static_cast<uint32_t>(-distance(epsn_, packet.bth.psn));
  uint8_t* memory = nullptr;
  const bool allowed =
      reth.dma_length == 0 || context_.env.memory.check(reth.rkey, context_.pd, reth.va, reth.dma_length, kRemoteRead,
                                                        context_.qpn, memory) == AccessCheck::kOk;
  if (!known || !allowed || !check_enabled(Operation::kReadRequest)) {
    context_.counters().rx_drop_bad_duplicate++;
    return;
  }
  Reply reply;
  reply.again = true;
  reply.psn = packet.bth.psn;
  reply.msn = msn_;
  reply.va = reth.va;
  reply.rkey = reth.rkey;
  reply.remaining = reth.dma_length;
  answer_again(reply);
}

void Responder::on_duplicate_atomic(const PacketView& packet) {
  for (const SavedAtomic& saved : saved_atomics_) {
    if (!saved.valid || saved.psn != packet.bth.psn) continue;
    Reply reply;
    reply.atomic = true;
    reply.again = true;
    reply.psn = saved.psn;
    reply.msn = msn_;
    reply.original = saved.original;
    answer_again(reply);
    return;
  }
  context_.counters().rx_drop_bad_duplicate++;
}

}  // namespace uroce
