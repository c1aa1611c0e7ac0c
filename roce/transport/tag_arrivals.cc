#include "transport/tag_arrivals.h"

#include "transport/rendezvous.h"
#include "transport/tag_matching.h"

namespace uroce {

TagArrivals::Begun TagArrivals::begin(const PacketView& packet) {
  if (!parse_tagged(packet.payload, packet.payload_bytes, headers_)) return {.why = &refusal::kTagHeader};
  TagMatching& tags = *context_.srq->tags();
  const TagHeader& header = headers_.tag;
  if (header.operation == TagOperation::kNoTag || header.operation == TagOperation::kFinished) {
    return begin_ordinary({.opcode = WcOpcode::kTmNoTag});
  }
  const bool rendezvous = header.operation == TagOperation::kRendezvous;
  const bool alone = packet.info->is_last() && packet.payload_bytes <= TagMatching::kRendezvousHeadersMax;
  if (rendezvous && !alone) return {.why = &refusal::kTagHeader};
  if (!tags.has(header.tag)) {
    const Begun begun = begin_ordinary({.opcode = WcOpcode::kTmRecv, .unexpected = true});
    if (!begun.not_ready) tags.on_unexpected();
    return begun;
  }
  if (rendezvous) return begin_rendezvous(packet);
  slot_.take(*tags.take(header.tag), {.opcode = WcOpcode::kTmRecv,
                                      .flags = kWcTmMatch | kWcTmDataValid,
                                      .tagged = true,
                                      .context = header.context,
                                      .tag = header.tag});
  return {.skip = TagHeader::kBytes};
}

TagArrivals::Begun TagArrivals::begin_ordinary(ReceiveMark mark) {
  if (!slot_.available()) return {.not_ready = true};
  slot_.take();
  slot_.mark(mark);
  return {};
}

TagArrivals::Begun TagArrivals::begin_rendezvous(const PacketView& packet) {
  if (!rendezvous_fits(context_, sends_)) return {.not_ready = true};
  const TaggedReceive& receive = *context_.srq->tags()->take(headers_.tag.tag);
  const Cause cause = check_rendezvous(context_, sends_, receive, headers_.rendezvous);
  slot_.take(receive, {.opcode = WcOpcode::kTmRecv,
                       .flags = kWcTmMatch,
                       .tagged = true,
                       .fetches = cause == Cause::kNone,
                       .context = headers_.tag.context,
                       .tag = headers_.tag.tag});
  if (cause == Cause::kNone) return {.skip = packet.payload_bytes};
  return {.why = cause == Cause::kReceiveTooShort ? &refusal::kReceiveTooShort : &refusal::kTagHeader};
}

void TagArrivals::end() {
  if (slot_.fetches()) start_rendezvous(context_, sends_, slot_.tagged(), headers_);
}

}  // namespace uroce
