// Requests that were received before: answered again, never carried out twice (READs excepted, which change nothing).
//
// A READ or an atomic is answered again only if it is one that was carried out, and that the peer may still be waiting
// for. A packet with an old PSN costs its sender nothing, so nothing may be had for it that was not given before: not
// other memory, not a word on whether a key is right, not more traffic than retries make.
#include <utility>

#include "transport/responder.h"

namespace uroce {

namespace {

// A READ's responses are sent again so many times in all, until its requester gets further. It has at most eight tries
// for that (retry_cnt is three bits), and the network may double them; with selective repeat it asks for small parts of
// a READ, in any order and as often as they are lost. Who goes back n asks for all READs that follow each time, so
// these are counted anew when he gets further in an earlier one.
constexpr uint32_t kReplaysMax = 32;

}  // namespace

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
/// stayed behind its copy would be owed to a peer that has it, and take a place from the peer's next READ. So however
/// often something is asked for, it is queued once. False: it is on its way already, or there is no room.
bool Responder::answer_again(Reply reply) {
  const bool selective = context_.peer.selective();
  uint32_t at = replies_.head();
  while (at != replies_.tail() && !reply.psn.before(replies_.at(at).end(context_.mtu))) at++;
  if (at != replies_.tail() && replies_.at(at).psn.before(reply.psn)) {
    const Reply& under_way = replies_.at(at);
    const bool more = under_way.end(context_.mtu).before(reply.end(context_.mtu));
    if (!more || !selective || !one_read(under_way, reply)) return false;  // will come anyway
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
    return false;
  }
  replace_replies(at, behind, reply);
  return true;
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

/// The latest has age 0.
Responder::Executed& Responder::executed(uint32_t age) {
  const auto size = static_cast<uint32_t>(executed_.size());
  return executed_[(executed_next_ + size - 1 - age) % size];
}

bool Responder::replay_allowed(const Executed& read) const {
  return read.replayed_packets < kReplaysMax * packets_of(read.read.dma_length, context_.mtu);
}

void Responder::count_replay(Executed& read, Psn psn, uint32_t packets) {
  if (read.furthest_replay.before(psn)) {
    read.furthest_replay = psn;
    uint32_t age = 0;
    while (&executed(age) != &read) executed(age++).replayed_packets = 0;
    read.replayed_packets = 0;
  }
  read.replayed_packets += packets;
}

/// The READ that was carried out and that this one repeats, whole or in part: with the same key, and each byte of
/// memory at the PSN that it had.
Responder::Executed* Responder::find_read(Psn psn, const Reth& reth) {
  for (uint32_t age = 0; age < executed_.size(); age++) {
    Executed& e = executed(age);
    if (e.operation != Operation::kReadRequest || psn.before(e.psn)) continue;
    const uint64_t offset = uint64_t{context_.mtu} * static_cast<uint32_t>(distance(e.psn, psn));
    if (offset != 0 && offset >= e.read.dma_length) continue;
    const bool part = reth.dma_length <= e.read.dma_length - offset && (reth.dma_length != 0 || e.read.dma_length == 0);
    return part && reth.rkey == e.read.rkey && reth.va == e.read.va + offset ? &e : nullptr;
  }
  return nullptr;
}

void Responder::on_duplicate_read(const PacketView& packet) {
  const Reth reth = packet.reth();
  const Psn psn = packet.bth.psn;
  Executed* read = find_read(psn, reth);
  bool allowed = read != nullptr && check_enabled(Operation::kReadRequest) &&
                 (read->furthest_replay.before(psn) || replay_allowed(*read));
  uint8_t* memory = nullptr;
  if (allowed && reth.dma_length != 0) {
    // The program may have taken its memory back since.
    allowed = context_.env.memory.check(reth.rkey, context_.pd, reth.va, reth.dma_length, kRemoteRead, context_.qpn,
                                        memory) == AccessCheck::kOk;
  }
  if (!allowed) {
    context_.counters().rx_drop_bad_duplicate++;
    return;
  }
  Reply reply;
  reply.again = true;
  reply.psn = psn;
  reply.msn = msn_;
  reply.va = reth.va;
  reply.rkey = reth.rkey;
  reply.remaining = reth.dma_length;
  if (answer_again(reply)) count_replay(*read, psn, packets_of(reth.dma_length, context_.mtu));
}

/// The same request, to the last bit: another one with an old PSN gets no answer that was meant for this one.
const Responder::Executed* Responder::find_atomic(const PacketView& packet) const {
  const AtomicEth eth = packet.atomic_eth();
  for (const Executed& e : executed_) {
    if (e.operation != packet.info->operation || e.psn != packet.bth.psn) continue;
    if (e.atomic == eth) return &e;
  }
  return nullptr;
}

void Responder::on_duplicate_atomic(const PacketView& packet) {
  const Executed* atomic = find_atomic(packet);
  if (atomic == nullptr) {
    context_.counters().rx_drop_bad_duplicate++;
    return;
  }
  Reply reply;
  reply.atomic = true;
  reply.again = true;
  reply.psn = atomic->psn;
  reply.msn = msn_;
  reply.original = atomic->original;
  answer_again(reply);
}

}  // namespace uroce
