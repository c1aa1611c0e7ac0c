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

/// Are both of them parts of one READ's answer?
bool Responder::one_read(const Reply& a, const Reply& b) const {
  return !a.atomic && !b.atomic && a.rkey == b.rkey &&
         a.va - b.va == static_cast<uint64_t>(int64_t{context_.mtu} * distance(b.psn, a.psn));
}

/// Puts the answer where its PSN belongs: in place of all that is left of the same one, or before all later ones. Those
/// stay: the network may have repeated a request that the requester did not. Queued answers never overlap: one that
/// stayed behind its copy would be owed to a peer that has it, and take a place from the peer's next READ.
void Responder::answer_again(Reply reply) {
  const bool selective = context_.peer.selective();
  uint32_t at = replies_.head();
  while (at != replies_.tail() && !reply.psn.before(replies_.at(at).end(context_.mtu))) at++;
  if (at != replies_.tail() && replies_.at(at).psn.before(reply.psn)) {
    const Reply& under_way = replies_.at(at);
    const bool more = under_way.end(context_.mtu).before(reply.end(context_.mtu));
    if (!more || !selective || !one_read(under_way, reply)) return;  // will come anyway
    const uint64_t end_va = reply.va + reply.remaining;
    reply = under_way;
    reply.remaining = static_cast<uint32_t>(end_va - reply.va);
  }
  const Psn end = reply.end(context_.mtu);
  uint32_t behind = at;
  for (; behind != replies_.tail() && replies_.at(behind).psn.before(end); behind++) {
    const Reply& queued = replies_.at(behind);
    reply.again = reply.again && queued.again;
    // Part of it again, and then what was still to come.
    if (selective && one_read(queued, reply) && end.before(queued.end(context_.mtu))) {
      reply.remaining = static_cast<uint32_t>(queued.va + queued.remaining - reply.va);
    }
  }
  if (behind == at && replies_.full()) {
    context_.counters().rx_drop_bad_duplicate++;
    return;
  }
  replace_replies(at, behind, reply);
}

/// `reply` takes the place of those in [from, to); without any, it stands before `from`.
void Responder::replace_replies(uint32_t from, uint32_t to, const Reply& reply) {
  if (from == to) {
    replies_.push(reply);
    for (uint32_t i = replies_.tail() - 1; i != from; i--) std::swap(replies_.at(i), replies_.at(i - 1));
    return;
  }
  replies_.at(from) = reply;
  while (to != replies_.tail()) replies_.at(++from) = replies_.at(to++);
  replies_.truncate(from + 1);
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
